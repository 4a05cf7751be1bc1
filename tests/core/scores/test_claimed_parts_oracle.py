"""Scores of parts of GPUs by claim equal a plain loop, on random clusters of whole and shared GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.cache.ledger import NodePods
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.dra.device import amounts
from scheduler_ext.core.dra.published import DeviceRequirements
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.core.request.request import GpuRequest, UnitRequest
from tests.core.dra.published import GPU_CLASS, WHOLE, claim, gpu, index_of, one_slice, waiting
from tests.core.scores.test_scores_oracle import assert_scores_agree
from tests.gpu_strategies import STRATEGIES
from tests.strategies import snapshot_of, workloads

PRODUCTS = (("NVIDIA H100 80GB HBM3", 80), ("NVIDIA L4", 24))
# A GPU: its product, whether it is shared, and what a claim holds of it in GiB.
HELD_GI = (0, 0, 5, 10, 20, 40, 80)
_gpus = st.tuples(st.sampled_from(PRODUCTS), st.booleans(), st.sampled_from(HELD_GI))
nodes_of_gpus = st.lists(_gpus, min_size=1, max_size=3)


def _asked(memory: str) -> DeviceRequirements:
    return DeviceRequirements("gpu.nvidia.com", capacity=(("memory", memory),))


def infos_of(
    nodes: Sequence[Sequence[tuple[tuple[str, int], bool, int]]], *sizes: str
) -> tuple[list[NodeInfo], list[str]]:
    """The nodes, and the names of the resources that stand for parts of these sizes."""
    index = index_of(GPU_CLASS, *(waiting(size, _asked(size)) for size in sizes))
    for number, gpus in enumerate(nodes):
        node, devices = f"n{number}", []
        for i, ((product, gi), shared, held_gi) in enumerate(gpus):
            plain = gpu(i, product, f"{gi}Gi")
            devices.append(replace(plain, facts=replace(plain.facts, allow_multiple_allocations=shared)))
            if held_gi:
                one = claim(f"{node}-{i}", f"gpu-{i}", node=node)
                (held,) = one.devices or ()
                consumed = amounts({"memory": f"{min(held_gi, gi)}Gi"}) if shared else {}
                index.update_claim(replace(one, devices=(replace(held, consumed=consumed),)))
        index.update_slice(one_slice(node, devices))
    index.settle()
    names = [index.resource_of(_asked(size)) for size in sizes]
    infos = [
        NodeRecord(allocatable={}).info(
            node, None, NodePods(), devices=index.node(node), claims=index.claims_on(node)
        )
        for node in (f"n{number}" for number in range(len(nodes)))
    ]
    return infos, [name for name in names if name is not None]


@given(
    st.lists(nodes_of_gpus, min_size=1, max_size=4),
    st.sampled_from((1, 1, 2)),
    st.sampled_from((0, 0, 1)),
    st.sampled_from(STRATEGIES),
    workloads(),
)
def test_scores_of_parts_agree_with_their_oracle(
    nodes: Sequence[Sequence[tuple[tuple[str, int], bool, int]]],
    parts: int,
    gpus: int,
    strategy: str,
    workload: Workload,
) -> None:
    infos, (name,) = infos_of(nodes, "10Gi")
    units = [UnitRequest(name, parts, by_claim=True), *([UnitRequest(WHOLE, gpus)] if gpus else [])]
    decision = filter_nodes(
        GpuRequest(units=tuple(units)),
        snapshot_of(infos, workload=workload),
        SchedulingPolicy(strategy=strategy),
    )
    event(f"fits somewhere: {bool(decision.fits.any())}")
    event(f"takes parts: {decision.scoring.takes_parts}")
    assert_scores_agree(decision)


def test_scores_agree_where_claims_take_parts_of_two_gpus() -> None:
    """The smaller part has room on the first GPU, the larger one on the second GPU only."""
    infos, names = infos_of([[(PRODUCTS[0], True, 40), (PRODUCTS[0], True, 0)]], "10Gi", "60Gi")
    request = GpuRequest(units=tuple(UnitRequest(name, 1, by_claim=True) for name in names))
    decision = filter_nodes(request, snapshot_of(infos), SchedulingPolicy())
    claimed = decision.scoring.claimed_milli
    assert claimed is not None
    assert decision.fits.any()
    assert np.count_nonzero(claimed) == 2
    assert_scores_agree(decision)
