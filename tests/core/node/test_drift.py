"""The difference between observed use and promises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.gpu.gpu import Holder, Memory
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.promisable import drift_mib
from tests.core.reported import NAMES, SHARE, WHOLE, bound, device, node, wants

ON_0 = {"main": ("GPU-0",)}
P = bound("p", wants(1000, SHARE), devices=ON_0)
Q = bound("q", wants(5000, SHARE), devices=ON_0)
ON_BOTH = bound(
    "p", wants(600, SHARE, "a"), wants(5000, SHARE, "b"), devices={"a": ("GPU-0",), "b": ("GPU-1",)}
)


def used(*pods: BoundPod, by_none: int | None = None, **mib: int) -> NodeInfo:
    """Two GPUs; these pods, by name, use so much of the first one."""
    memory = Memory(80_000, 500, sum(mib.values()) + (by_none or 0), by_none)
    holders = tuple(Holder(uid=f"uid-{name}", memory_mib=each) for name, each in mib.items())
    return node(device(0, memory=memory, holders=holders), device(1), pods=pods)


@pytest.mark.parametrize(
    ("info", "mib"),
    [
        pytest.param(used(P, p=1500, by_none=3000), 500, id="more, and by no pod"),
        pytest.param(used(P, q=1500), 1500, id="by a pod that was promised nothing"),
        pytest.param(used(P, Q, p=1200, q=400), 200, id="by one while another leaves some of its own"),
        pytest.param(used(ON_BOTH, p=900), 300, id="by a container, however much another has elsewhere"),
        pytest.param(replace(used(P, p=1500), report=None), 0, id="without a report"),
        pytest.param(used(bound("w", wants(1, WHOLE)), w=70_000), 0, id="a whole GPU is held with all of it"),
        pytest.param(used(replace(P, departed=True), p=1500), 0, id="by one that has left since"),
    ],
)
def test_use_beyond_the_holdings(info: NodeInfo, mib: int) -> None:
    assert drift_mib(info, NAMES) == mib
