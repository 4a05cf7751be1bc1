"""The unusable part of unallocated GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.views.history import fragmentation
from scheduler_ext.wire.objects import assemble, read_objects
from tests.core.reported import NAMES
from tests.kube_objects import Json, gpu, gpu_node, holder, inventory

SLICED = {"strategy": "time-slicing", "replicas": 4}


def unallocated(*objects: Json, missing: bool = False) -> float:
    infos = assemble(read_objects(inventory(*objects)), NAMES)
    if missing:
        infos = {name: replace(info, freshness="Missing") for name, info in infos.items()}
    found, unusable = fragmentation(
        build_snapshot({name: resolve(info, NAMES, 10) for name, info in infos.items()}, 1)
    )
    assert 0 <= unusable <= found
    return found


@pytest.mark.parametrize(
    ("node", "missing", "gpus"),
    [
        pytest.param(gpu_node("n", [gpu(0), gpu(1)]), False, 2, id="free GPUs are"),
        pytest.param(
            gpu_node("n", [gpu(0), gpu(1, holders=[holder("p")])]), False, 1, id="held ones are not"
        ),
        pytest.param(
            gpu_node("n", [gpu(0, health={"state": "Unhealthy"})]), False, 0, id="sick ones are not"
        ),
        pytest.param(gpu_node("n", [gpu(0)]), True, 0, id="nor those of a missing node"),
        pytest.param(gpu_node("n", [gpu(0)], sharing=SLICED), False, 0, id="replicas are no GPUs to sum"),
    ],
)
def test_unallocated_gpus(node: Json, missing: bool, gpus: float) -> None:
    assert unallocated(node, missing=missing) == pytest.approx(gpus)
