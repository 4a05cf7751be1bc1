"""Errors of a GPU's memory: pages that wait to be retired, and uncorrectable errors as they are counted."""

from __future__ import annotations

import pytest

from tests.agent.nvml_mock.fixtures import Rig
from tests.agent.nvml_mock.presets import h100, t4


@pytest.mark.parametrize(
    ("pending", "faults"),
    [
        pytest.param(1, ("page retirement pending",), id="pages wait for a reset"),
        pytest.param(0, (), id="none do"),
    ],
)
def test_pages_of_gpus_without_row_remapping(rig: Rig, pending: int | None, faults: tuple[str, ...]) -> None:
    gpu = t4()
    gpu.retirement = pending
    assert rig.device(gpu).faults == faults


def test_ecc_errors_are_reported_as_they_come(rig: Rig) -> None:
    gpu = h100()
    told = []
    # Errors before the first reading are not reported; a reset sets the count back.
    for gpu.ecc in (7, 7, 8, 8, 0, 2):
        told.append(rig.device(gpu).ecc_errors)
    assert told == [0, 0, 1, 0, 0, 2]


def test_without_ecc_there_are_no_errors(rig: Rig) -> None:
    gpu = h100()
    gpu.ecc = None
    device = rig.device(gpu)
    assert (device.ecc_errors, device.faults) == (0, ())
    gpu.ecc = 3
    assert rig.device().ecc_errors == 0


def test_a_library_that_knows_neither(old_rig: Rig) -> None:
    device = old_rig.device(t4())
    assert (device.ecc_errors, device.faults) == (0, ())
