"""Laws of the cost of any cluster: no value is lost, and two views of one fact agree."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.gpu.readings import InstanceReadings, NodeReadings, Readings
from scheduler_ext.core.gpu.value_table import value_of
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.pod_facts import PodFacts
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.features.cost.cost_report import ClusterValueCache
from scheduler_ext.views.fragmentation import fragmentation_by_node
from scheduler_ext.views.node_usage import node_usage
from scheduler_ext.views.value_account import ClusterValue, all_of
from scheduler_ext.wire.config import Configuration, CostSection
from tests.strategies import RESOURCES, clusters, snapshot_of, workloads

PER_UNIT = 2.0
CONFIG = Configuration(cost=CostSection(per_unit=PER_UNIT))
_idle_s = st.sampled_from((None, 0, 3600))


@st.composite
def priced(draw: st.DrawFn) -> tuple[Snapshot, NodeReadings]:
    infos = [
        replace(
            info, value=draw(st.sampled_from((0.0, 0.0, 1.5))), fraction=draw(st.sampled_from((1, 1, 4, 0)))
        )
        for info in draw(clusters())
    ]
    readings = {
        info.name: tuple(
            Readings(
                device.uuid,
                idle_s=draw(_idle_s),
                instances=tuple(
                    InstanceReadings(each.uuid, None, draw(_idle_s)) for each in device.mig.instances
                ),
            )
            for device in info.devices
        )
        for info in infos
    }
    return snapshot_of(infos, workload=draw(workloads())), readings


def found(case: tuple[Snapshot, NodeReadings]) -> ClusterValue:
    """Of pods that have all run for long."""
    pods = (pod for node in case[0].nodes.values() for pod in node.info.pods)
    facts = {pod.uid: PodFacts(running_since=-86_400.0) for pod in pods}
    return ClusterValueCache(CONFIG).of(*case, facts, 0.0)


def worth(info: NodeInfo) -> float:
    """The value of all GPUs of a node, added up by hand; without a report, of those that labels count."""
    if info.is_out:
        return 0.0
    part = 4 if info.fraction == 4 else 1
    if info.report is not None:
        return sum(info.value or value_of(device.model, {}) / part for device in info.devices)
    estimate = info.estimate
    if estimate is None:
        return 0.0
    return estimate.count * (info.value or value_of(estimate.model, {}) / part)


@given(priced())
def test_no_value_is_lost_and_the_views_agree(case: tuple[Snapshot, NodeReadings]) -> None:
    nodes, value = case[0].nodes.values(), found(case)
    infos = [node.info for node in nodes]
    # A MIG instance that is offered as a GPU has a part of the value.
    if not any(each.report is None and each.estimate and each.estimate.model.is_mig_slice for each in infos):
        assert value.total.total == pytest.approx(PER_UNIT * sum(map(worth, infos)), abs=1e-6)
    counted: dict[str, float] = {}
    for kind, account in value.models.items():
        assert min(account) >= -1e-9
        assert account.idle + account.unmeasured <= account.allocated + 1e-9
        paid = all_of(kinds[kind] for kinds in value.namespaces.values() if kind in kinds)
        for name in ("allocated", "idle", "unmeasured"):
            assert getattr(paid, name) == pytest.approx(getattr(account, name), abs=1e-6)
        counted[kind.product] = counted.get(kind.product, 0.0) + account.gpus
    expected: dict[str, float] = {}
    for node in nodes:
        by_model = node_usage(node, RESOURCES, 10).by_model
        each = node.info.gpu_count / max(1, sum(amounts.gpus for amounts in by_model.values()))
        for product, amounts in by_model.items():
            expected[product] = expected.get(product, 0.0) + amounts.gpus * each
    assert counted == pytest.approx(expected)


@given(priced())
def test_free_and_stranded_value_are_that_of_the_unallocated_and_unusable_gpus(
    case: tuple[Snapshot, NodeReadings],
) -> None:
    snapshot, readings = case
    for name, (unallocated, unusable) in fragmentation_by_node(snapshot).items():
        node = snapshot.nodes[name]
        info = replace(node.info, value=1.0)
        # Where pods hold unknown GPUs, or GPUs are cordoned, decisions subtract whole nodes. Costs call GPUs
        # unavailable while their layout or driver is being changed.
        if (
            node.state.adrift
            or node.state.changing
            or any(device.cordoned for device in info.devices)
            or info.allocatable is not None
        ):
            continue
        if any(device.mig.enabled for device in info.devices):
            continue
        alone = {name: replace(node, info=info)}
        account = ClusterValueCache(CONFIG).of(replace(snapshot, nodes=alone), readings, {}, 0.0).total
        rounding = PER_UNIT * 0.001 * max(1, account.gpus)
        assert account.free + account.stranded == pytest.approx(PER_UNIT * unallocated, abs=rounding)
        assert account.stranded == pytest.approx(PER_UNIT * unusable, abs=rounding)
