"""Notes on nodes whose kubelet may refuse a pod because of NUMA."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained
from tests.kube_objects import Json, gpu, gpu_node, holder, node, pod

WHOLE = "nvidia.com/gpu"


def sockets(held: tuple[int, ...], numa: tuple[int | None, ...] = (0, 0, 0, 0, 1, 1, 1, 1)) -> list[Json]:
    """A node of GPUs on these NUMA nodes; those with an index in `held` are held."""
    devices = [gpu(i, numaNode=on, holders=[holder("x")] if i in held else []) for i, on in enumerate(numa)]
    return [gpu_node("n", devices), node("n", {WHOLE: str(len(numa))})]


def note(most: int, free: str, policy: str) -> list[str]:
    return [
        f"no NUMA node of n ({free} free) has {most} free GPUs: a kubelet with topologyManagerPolicy "
        f"{policy} refuses the pod there (TopologyAffinityError); the policy is not known here"
    ]


@pytest.mark.parametrize(
    ("count", "objects", "notes"),
    [
        pytest.param(4, sockets((0,)), [], id="one NUMA node has enough"),
        pytest.param(
            4,
            sockets((0, 4)),
            note(4, "3 and 3", "restricted or single-numa-node"),
            id="each would have enough without other pods",
        ),
        pytest.param(6, sockets(()), note(6, "4 and 4", "single-numa-node"), id="none is large enough"),
        pytest.param(4, sockets((0, 4), (None,) * 8), [], id="NUMA nodes that no report states"),
        pytest.param(1, sockets((0, 4)), [], id="one GPU is on one NUMA node"),
    ],
)
def test_numa(count: int, objects: list[Json], notes: list[str]) -> None:
    explanation = explained(pod("p", {WHOLE: str(count)}), *objects)
    assert explanation["fits"]
    assert explanation["warnings"] == notes
