"""Nodes that are kept from step to step are as if they were resolved for the first time."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.gpu.gpu import Memory, Report
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.features.gangs.planning.planned_nodes import PlannedNodes
from tests.core.asked import share
from tests.core.reported import device
from tests.features.gangs.planning.planning_lab import SIZING, gpus_node, waiting

_PODS = [waiting("p", 1).pod, waiting("q", 2).pod, waiting("s", share(20_000)).pod]
_nodes = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from((40_960, 81_920)),
        st.lists(st.sampled_from(_PODS), unique_by=lambda pod: pod.uid),
        st.lists(st.sampled_from(_PODS[:2]), unique_by=lambda pod: pod.uid),
        st.booleans(),
    ),
    min_size=2,
    max_size=6,
)


@given(_nodes)
def test_a_node_is_as_if_it_was_resolved_for_the_first_time(
    nodes: list[tuple[str, int, list[BoundPod], list[BoundPod], bool]],
) -> None:
    known = PlannedNodes(SIZING)
    before: dict[str, NodeInfo] = {}
    for name, total_mib, planned, bound, same_report in nodes:
        report: Report | None = Report(tuple(device(i, memory=Memory(total_mib)) for i in range(4)))
        if same_report and name in before:
            report = before[name].report
        info = replace(gpus_node(name, 4, *bound, planned=planned), report=report)
        before[name] = info
        assert known.resolved(info) == SIZING.resolved(info)


def test_an_unchanged_node_is_not_resolved_again() -> None:
    known = PlannedNodes(SIZING)
    info = gpus_node("a", 4, planned=[_PODS[0]])
    assert known.resolved(replace(info)) is known.resolved(info)
