"""Which GPU is simulated: one that is known by name, or one that a file describes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_for, geometry_from_report
from scheduler_ext.core.gpu.mig_profile import MAX_GRID, Profile, parse_profile
from scheduler_ext.core.gpu.mig_tables import FALLBACK_PROFILES

# Letters of NVIDIA's own names, and nothing that a mix, a CSV or a terminal reads as more than a name.
_NAME = re.compile(r"[A-Za-z0-9.+_-]{1,63}")
_FIELDS = ("name", "size", "starts")


def read_geometry(name_or_file: str) -> Geometry:
    """The geometry of a known GPU such as A100-80GB, else of a JSON file ``{"grid":8,"profiles":[...]}``.

    Each profile has ``name``, ``size`` and ``starts`` in units of the grid, and may have ``maxInstances``:
    without it, or where it is null, as many as fit. Names are ``profile_name``'s.
    Raises SimulationError naming the file and the field.
    """
    known = geometry_for(name_or_file)
    if known is not None:
        return known
    try:
        text = Path(name_or_file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SimulationError(
            f"geometry {name_or_file}: no such file, and none of the known GPUs"
            f" {', '.join(FALLBACK_PROFILES)}"
        ) from None
    except (OSError, ValueError) as error:
        raise SimulationError(f"geometry {name_or_file}: {error}") from None
    try:
        return _geometry(json.loads(text, object_pairs_hook=_object))
    except (ValueError, RecursionError) as error:
        # What JSON says of its place and what a field lacks are both one line.
        raise SimulationError(f"geometry {name_or_file}: {error}") from None


def profile_name(text: str) -> str:
    """The canonical name of one of NVIDIA's profiles, and any other name as it is: a GPU may be made up.

    Raises ValueError for a name that a mix could not be written with.
    """
    try:
        return parse_profile(text)
    except ValueError:
        if _NAME.fullmatch(text):
            return text
        raise ValueError(
            f"{text[:80]!r} is no name of a profile; write one like 1g.10gb: 1 to 63 letters, digits, .+_-"
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose parser would keep the last of equal keys without a word."""
    value: dict[str, Any] = {}
    for key, part in pairs:
        if key in value:
            raise ValueError(f"{key[:80]!r}: is given twice in one object; keep one of the two")
        value[key] = part
    return value


def _geometry(value: Any) -> Geometry:
    if not isinstance(value, dict):
        raise ValueError('must be an object such as {"grid":8,"profiles":[...]}')
    for field in value.keys() - {"grid", "profiles"}:
        raise ValueError(f"{field[:80]!r}: unknown field; a geometry has grid and profiles")
    profiles = value.get("profiles")
    if not isinstance(profiles, list):
        raise ValueError("profiles: must be a list of {name, size, starts, maxInstances}")
    grid = _whole("grid", value.get("grid"))
    if not 1 <= grid <= MAX_GRID:
        # The core would call it by the name it has in a node's report.
        raise ValueError(f"grid: {grid} is outside 1..{MAX_GRID}; write the placement units of the GPU")
    return geometry_from_report(
        grid, [_profile(f"profiles[{i}]", item) for i, item in enumerate(profiles)], profile_name
    )


def _profile(field: str, value: Any) -> Profile:
    if not isinstance(value, dict):
        raise ValueError(f"{field}: must be an object with name, size, starts and maxInstances")
    for unknown in value.keys() - {*_FIELDS, "maxInstances"}:
        raise ValueError(f"{field}.{unknown[:80]!r}: unknown field; drop it")
    for missing in (name for name in _FIELDS if name not in value):
        raise ValueError(f"{field}.{missing}: missing")
    if not isinstance(value["name"], str):
        raise ValueError(f"{field}.name: must be text such as 1g.10gb")
    if not isinstance(value["starts"], list):
        raise ValueError(f"{field}.starts: must be a list of whole numbers")
    starts = tuple(_whole(f"{field}.starts[{i}]", start) for i, start in enumerate(value["starts"]))
    for start in (start for number, start in enumerate(starts) if start in starts[:number]):
        raise ValueError(f"{field}.starts: {start} is listed twice; list each once")
    cap = value.get("maxInstances")
    # Without a cap of its own only the placements limit a profile.
    cap = max(len(starts), 1) if cap is None else _whole(f"{field}.maxInstances", cap)
    return Profile(value["name"], _whole(f"{field}.size", value["size"]), starts, cap, None)


def _whole(field: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{field}: must be a whole number, is {str(value)[:40]!r}")
    return value
