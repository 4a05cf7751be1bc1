"""Which GPUs count as unallocated, and which part of them is unusable."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.views.fragmentation import fragmentation
from tests.kube_objects import Json, gpu, gpu_node, holder
from tests.strategies import clusters, snapshot_of
from tests.views.seen import info_of

HELD = gpu(0, holders=[holder("p")])
SICK = gpu(1, health={"state": "Unhealthy", "reason": "XID 79"})
SLICED = {"strategy": "time-slicing", "replicas": 4}


@pytest.mark.parametrize(
    ("node", "freshness", "gpus"),
    [
        pytest.param(gpu_node("n", [gpu(1), HELD]), "Fresh", 1, id="free GPUs are, and held ones are not"),
        pytest.param(gpu_node("n", [SICK]), "Fresh", 0, id="sick ones are not"),
        pytest.param(gpu_node("n", [gpu(0)]), "Missing", 0, id="nor those of a missing node"),
        pytest.param(gpu_node("n", [gpu(0)], sharing=SLICED), "Fresh", 0, id="replicas are no GPUs to sum"),
    ],
)
def test_unallocated_gpus(node: Json, freshness: str, gpus: float) -> None:
    found, _ = fragmentation(snapshot_of([replace(info_of(node), freshness=freshness)]))
    assert found == pytest.approx(gpus)


@given(clusters())
def test_what_is_unusable_is_unallocated(infos: tuple[NodeInfo, ...]) -> None:
    unallocated, unusable = fragmentation(snapshot_of(infos))
    assert 0 <= unusable <= unallocated + 1e-9
