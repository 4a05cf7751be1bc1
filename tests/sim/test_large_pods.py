"""Pods that fit on few nodes find these free, because the default policy fills them last."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.sim.protocols import run_inflation
from scheduler_ext.sim.scheduler import Settings
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, TracePod
from scheduler_ext.sim.world import TraceNode
from tests.sim.small import SMALL

# One node in ten has the CPU for pods of eight GPUs and 120 cores; the others balance the requests of
# singles.
NODES = tuple(
    TraceNode(f"node-{index:02}", (128 if index % 10 == 0 else 96) * 1000, 786_432, 8, "G2")
    for index in range(40)
)
SINGLE, HEAVY = PodKind(8_000, 1024, 1, GPU_MILLI), PodKind(16_000, 1024, 1, GPU_MILLI)
LARGE = PodKind(120_000, 1024, 8, GPU_MILLI)
PODS = tuple(
    TracePod(f"pod-{index}", kind, "LS")
    for index, kind in enumerate([SINGLE] * 190 + [HEAVY] * 60 + [LARGE] * 3)
)


@pytest.mark.parametrize("seed", [42, 43])
def test_no_pod_is_refused_at_four_fifths_of_the_load(seed: int) -> None:
    ties = Settings(ties="random")
    large = replace(SMALL, nodes=NODES, pods=PODS, policy="default", seed=seed, load=0.8, settings=ties)
    assert dict(run_inflation(large).run.rejected_by_class) == {}
