"""Errors of a GPU's memory, a GPU that waits for a reset in NVML, and one that had it."""

from __future__ import annotations

import pytest

from tests.agent.nvml_mock.fixtures import Rig
from tests.agent.nvml_mock.library import FakeGpu
from tests.agent.nvml_mock.presets import a100_80gb_mig, h100, t4


def changed(gpu: FakeGpu, **fields: object) -> FakeGpu:
    for name, value in fields.items():
        setattr(gpu, name, value)
    return gpu


@pytest.mark.parametrize(
    ("gpu", "pending", "action"),
    [
        pytest.param(changed(h100(), action=None), False, None, id="a driver without recovery actions"),
        pytest.param(changed(h100(), action=2), True, 2, id="a driver that asks for a reboot"),
        pytest.param(changed(h100(), remapped="3,2,1,0"), True, 0, id="rows to be remapped"),
        pytest.param(changed(t4(), retirement=1), True, 0, id="pages to be retired"),
        pytest.param(
            changed(a100_80gb_mig(), remapped=None), None, 0, id="MIG instances keep rows from being read"
        ),
        pytest.param(changed(a100_80gb_mig(), remapped=None, action=1), True, 1, id="but not the action"),
    ],
)
def test_signs(rig: Rig, gpu: FakeGpu, pending: bool | None, action: int | None) -> None:
    device = rig.device(gpu)
    assert (device.reset_pending, device.recovery_action) == (pending, action)


@pytest.mark.parametrize(
    ("faults", "pending"),
    [
        pytest.param({"*": 15}, True, id="lost"),
        pytest.param({"*": 16}, True, id="a reset is required"),
        pytest.param({"*": 999}, None, id="an unknown error is no sign"),
        pytest.param({"nvmlDeviceGetFieldValues": 999}, None, id="an action that cannot be asked now"),
        pytest.param({"nvmlDeviceGetFieldValues": 3}, False, id="an action that is never known"),
    ],
)
def test_an_unreadable_value_is_no_reset(rig: Rig, faults: dict[str, int], pending: bool | None) -> None:
    gpu = h100()
    rig.device(gpu)
    gpu.faults = {**faults}
    assert rig.device().reset_pending is pending
    gpu.faults = {}
    assert rig.device().reset_pending is False


@pytest.mark.parametrize(
    ("code", "pending", "faults"),
    [
        pytest.param(3, False, (), id="not supported"),
        pytest.param(2, False, (), id="an older driver does not know the number"),
        pytest.param(999, None, (), id="it cannot be asked now"),
        pytest.param(15, True, ("GPU is lost",), id="the GPU is lost"),
    ],
)
def test_an_error_in_the_place_of_the_action(
    rig: Rig, code: int, pending: bool | None, faults: tuple[str, ...]
) -> None:
    device = rig.device(changed(h100(), action=1, action_error=code))
    assert (device.recovery_action, device.reset_pending, device.faults) == (None, pending, faults)


def test_a_driver_that_is_away_is_no_reset(rig: Rig) -> None:
    rig.read(changed(h100(), action=1))
    rig.node.faults = {"*": 9}
    assert [device.reset_pending for device in rig.read().devices] == [None]


def test_a_library_without_the_new_functions(old_rig: Rig) -> None:
    device = old_rig.device(t4())
    assert (device.reset_pending, device.ecc_errors, device.faults) == (False, 0, ())


@pytest.mark.parametrize(
    ("gpu", "faults"),
    [
        pytest.param(changed(t4(), retirement=1), ("page retirement pending",), id="pages wait for a reset"),
        pytest.param(t4(), (), id="no pages do"),
        pytest.param(changed(h100(), remapped="0,9,0,1"), ("row remapping failed",), id="no row is left"),
        pytest.param(h100(), (), id="no row was ever remapped"),
    ],
)
def test_faults_of_the_memory(rig: Rig, gpu: FakeGpu, faults: tuple[str, ...]) -> None:
    assert rig.device(gpu).faults == faults


def test_a_failed_remapping_is_not_forgotten_where_it_cannot_be_asked(rig: Rig) -> None:
    gpu = changed(h100(), remapped="0,9,0,1")
    rig.device(gpu)
    gpu.faults = {"nvmlDeviceGetRemappedRows": 3}
    assert rig.device().faults == ("row remapping failed",)
    gpu.faults, gpu.remapped = {}, "0,0,0,0"
    assert rig.device().faults == ()


def test_ecc_errors_are_reported_as_they_come(rig: Rig) -> None:
    gpu = h100()
    told = []
    # Errors before the first reading are not reported; a reset sets the count back.
    for gpu.ecc in (7, 7, 8, 8, 0, 2):
        told.append(rig.device(gpu).ecc_errors)
    assert told == [0, 0, 1, 0, 0, 2]


def test_without_ecc_there_are_no_errors(rig: Rig) -> None:
    gpu = changed(h100(), ecc=None)
    device = rig.device(gpu)
    assert (device.ecc_errors, device.faults) == (0, ())
    gpu.ecc = 3
    assert rig.device().ecc_errors == 0
