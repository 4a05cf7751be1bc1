"""The fake library's structures are pynvml's, byte for byte."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pynvml

STRUCTURES = {
    "PciInfo": pynvml.nvmlPciInfo_t,
    "Memory": pynvml.c_nvmlMemory_t,
    "MemoryV2": pynvml.c_nvmlMemory_v2_t,
    "Utilization": pynvml.c_nvmlUtilization_t,
    "ProcessSample": pynvml.c_nvmlProcessUtilizationSample_t,
    "ProcessInfo": pynvml.c_nvmlProcessInfo_v3_t,
    "ProfileInfo": pynvml.c_nvmlGpuInstanceProfileInfo_t,
    "ProfileInfoV2": pynvml.c_nvmlGpuInstanceProfileInfo_v2_t,
    "Placement": pynvml.c_nvmlGpuInstancePlacement_t,
    "GpuInstanceInfo": pynvml.c_nvmlGpuInstanceInfo_t,
    "Attributes": pynvml.c_nvmlDeviceAttributes,
    "FieldValue": pynvml.c_nvmlFieldValue_t,
    "EventData": pynvml.c_nvmlEventData_t,
}


def _layout(library: Path) -> list[tuple[str, str, int, int]]:
    """(structure, field or "" for the whole, offset, size) of everything in the library's structures."""
    line = ctypes.CDLL(str(library)).fakeNvmlLayout
    rows: list[tuple[str, str, int, int]] = []
    names = ctypes.c_char_p(), ctypes.c_char_p()
    numbers = ctypes.c_ulong(), ctypes.c_ulong()
    while line(len(rows), *map(ctypes.byref, names), *map(ctypes.byref, numbers)):
        structure, field = ((name.value or b"").decode() for name in names)
        rows.append((structure, field, numbers[0].value, numbers[1].value))
    return rows


def test_sizes_and_offsets_are_those_of_pynvml(fake_library: Path) -> None:
    rows = _layout(fake_library)
    assert {row[0] for row in rows} == set(STRUCTURES)
    for structure, field, offset, size in rows:
        theirs = STRUCTURES[structure]
        if not field:
            assert size == ctypes.sizeof(theirs), structure
        else:
            found = getattr(theirs, field)
            assert (offset, size) == (found.offset, found.size), f"{structure}.{field}"
