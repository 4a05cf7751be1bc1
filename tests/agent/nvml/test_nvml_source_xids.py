"""XID events: each is returned once, with its GPU, whatever else happens."""

from __future__ import annotations

import pytest

from tests.agent.nvml_mock.fixtures import Rig
from tests.agent.nvml_mock.presets import a100_80gb_mig, h100, t4


def xids(rig: Rig) -> list[tuple[int, ...]]:
    return [device.xids for device in rig.read().devices]


def test_each_is_returned_once_and_in_order(rig: Rig) -> None:
    rig.node.events = [(13, "GPU-h100-0")]
    # Events before the agent's start are not returned.
    assert rig.device(h100(0), t4(1)).xids == ()
    rig.node.events += [(48, "GPU-t4-1"), (31, "GPU-h100-0"), (48, "GPU-h100-0")]
    assert xids(rig) == [(31, 48), (48,)]
    assert xids(rig) == [(), ()]
    rig.node.events += [(31, "GPU-h100-0")]
    assert xids(rig) == [(31,), ()]


def test_the_last_word_of_a_gpu_that_falls_off_the_bus(rig: Rig) -> None:
    gpu = a100_80gb_mig()
    rig.device(gpu)
    gpu.faults = {"*": 15}
    rig.node.events += [(79, gpu.uuid)]
    device = rig.device()
    assert (device.faults, device.xids) == (("GPU is lost",), (79,))
    # Returned after it was found to be lost.
    rig.node.events += [(154, gpu.uuid)]
    assert rig.device().xids == (154,)
    gpu.faults = {}
    rig.device()
    assert rig.node.calls()["nvmlDeviceRegisterEvents"] == 2
    rig.node.events += [(31, gpu.uuid)]
    assert rig.device().xids == (31,)


def test_a_gpu_that_is_lost_when_it_is_to_be_listened_to(rig: Rig) -> None:
    lost, well = h100(0), t4(1)
    lost.faults = {"nvmlDeviceRegisterEvents": 15}
    rig.read(lost, well)
    rig.node.events += [(48, "GPU-t4-1")]
    assert xids(rig) == [(), (48,)]


@pytest.mark.parametrize("code", [pytest.param(15, id="a lost GPU"), pytest.param(999, id="who knows")])
def test_a_set_of_events_that_fails_is_created_again(rig: Rig, code: int) -> None:
    rig.read(h100(0))
    rig.node.faults = {"nvmlEventSetWait_v2": code}
    assert xids(rig) == [()]
    rig.node.faults = {}
    assert xids(rig) == [()]
    rig.node.events += [(48, "GPU-h100-0")]
    assert xids(rig) == [(48,)]
    calls = rig.node.calls()
    assert (calls["nvmlEventSetCreate"], calls["nvmlEventSetFree"]) == (2, 1)


def test_after_another_initialisation_they_are_returned_again(rig: Rig) -> None:
    rig.read(h100(0))
    rig.node.events += [(48, "GPU-h100-0")]
    rig.node.faults = {"nvmlDeviceGetMemoryInfo_v2": 9}
    reading = rig.read()
    # Read before the driver went: returned nevertheless.
    assert (reading.problem is not None, reading.devices[0].xids) == (True, (48,))
    rig.node.faults = {}
    rig.now_s += 5
    assert xids(rig) == [()]
    rig.node.events += [(31, "GPU-h100-0")]
    assert xids(rig) == [(31,)]


def test_a_gpu_without_events_is_silent_and_does_not_silence_others(rig: Rig) -> None:
    silent, other = t4(0), h100(1)
    silent.events = None
    rig.read(silent, other)
    rig.node.events += [(48, "GPU-t4-0"), (31, "GPU-h100-1")]
    assert xids(rig) == [(), (31,)]


@pytest.mark.parametrize(
    ("function", "code"),
    [
        pytest.param("nvmlEventSetCreate", 3, id="not supported"),
        pytest.param("nvmlEventSetWait_v2", 13, id="an older library"),
    ],
)
def test_where_there_are_no_events_they_are_asked_for_once(rig: Rig, function: str, code: int) -> None:
    rig.node.faults = {function: code}
    for _ in range(3):
        assert rig.device(h100()).xids == ()
    assert rig.node.calls()["nvmlEventSetCreate"] == 1


def test_an_endless_stream_does_not_hold_up_the_reading(rig: Rig) -> None:
    rig.read(h100(0))
    rig.node.events += [(31, "GPU-h100-0")] * 1500
    assert [len(told) for told in xids(rig)] == [1000]
    assert [len(told) for told in xids(rig)] == [500]


def test_a_gpu_that_comes_later_is_listened_to(rig: Rig) -> None:
    rig.read(h100(0))
    rig.read(h100(0), t4(1))
    rig.node.events += [(48, "GPU-t4-1")]
    assert xids(rig) == [(), (48,)]
