"""Memory that pods use on GPUs they do not hold: it is not free, and the GPU still takes pods."""

from __future__ import annotations

import pytest

from scheduler_ext.core.gpu.gpu import Device, Holder, Memory
from tests.core.reported import SHARE, WHOLE, bound, device, free_units, node, slots, wants

HEADROOM = 8192
STRANGER = Holder(namespace="ns", name="stranger", memory_mib=500)
PODS = (bound("p", wants(1000, SHARE), devices={"main": ("GPU-0",)}),)
OWN = Holder(uid="uid-p", memory_mib=700)


@pytest.mark.parametrize(
    ("memory", "holders", "free_mib"),
    [
        pytest.param(Memory(81920, used_mib=700), (OWN,), 80920, id="a share's own use is in it"),
        pytest.param(Memory(81920, used_mib=500), (STRANGER,), 80420, id="a stranger's use is beside it"),
        pytest.param(
            Memory(81920, used_mib=1200, unaccounted_mib=300),
            (STRANGER,),
            80120,
            id="and use of no pod at all",
        ),
        pytest.param(Memory(81920, used_mib=2500), (OWN, STRANGER), 79420, id="a share that uses too much"),
    ],
)
def test_remaining_room_for_shares(memory: Memory, holders: tuple[Holder, ...], free_mib: int) -> None:
    found = slots(node(device(0, memory=memory, holders=holders), pods=PODS))["GPU-0"]
    assert found.share_free_mib == free_mib - HEADROOM


@pytest.mark.parametrize(
    "used_by_others",
    [
        pytest.param(device(0, memory=Memory(81920, used_mib=500), holders=(STRANGER,)), id="by a stranger"),
        pytest.param(device(0, memory=Memory(81920, used_mib=500, unaccounted_mib=500)), id="by no pod"),
    ],
)
def test_a_gpu_that_others_use_is_free_with_less_memory(used_by_others: Device) -> None:
    """A monitor with a context on every GPU must not empty a cluster; a pod that needs the memory requests
    it.
    """
    info = node(used_by_others, device(1))
    assert free_units(info) == {"GPU-0": {WHOLE: 1}, "GPU-1": {WHOLE: 1}}
    (unit,) = slots(info)["GPU-0"].units
    assert unit.free_mib == 81920 - 500
