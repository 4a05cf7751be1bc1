"""The verdict of kube-scheduler's own filters: their order, their texts, and the added explanation."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from scheduler_ext.core.intree import (
    InTreeRejection,
    NodeFacts,
    NodeSelectorTerm,
    PodNeeds,
    Requirement,
    Taint,
    Toleration,
    intree_rejection,
)

NODE = NodeFacts(
    name="node-1",
    labels={"zone": "b", "disk": "hdd"},
    taints=(),
    unschedulable=False,
    allocatable={"cpu": Fraction(8), "memory": Fraction(32 * 2**30), "pods": Fraction(110)},
    requested={"cpu": Fraction(6)},
    pod_count=3,
)
POD = PodNeeds(node_name=None, node_selector={}, required_terms=None, tolerations=(), requests={})
TAINTED = replace(NODE, taints=(Taint("dedicated", "gpu", "NoSchedule"),))
CORDONED = replace(
    NODE, unschedulable=True, taints=(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),)
)
TOLERATES_CORDON = (
    Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", value="", effect="NoSchedule"),
)

ZONE_A = NodeSelectorTerm((Requirement("zone", "In", ("a",)),), ())
ZONE_B = NodeSelectorTerm((Requirement("zone", "In", ("b",)),), ())
NAMED = NodeSelectorTerm((), (Requirement("metadata.name", "In", ("node-1",)),))

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable:NoSchedule"
UNSCHEDULABLE = "node(s) were unschedulable"
MISNAMED = "node(s) didn't match the requested node name"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"


def verdict(pod: PodNeeds, node: NodeFacts) -> InTreeRejection | None:
    return intree_rejection(pod, node, ignore_resources=frozenset())


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        pytest.param(replace(POD, node_name="node-1"), NODE, id="the node the pod names"),
        pytest.param(replace(POD, node_selector={"zone": "b", "disk": "hdd"}), NODE, id="the selector met"),
        pytest.param(replace(POD, required_terms=(ZONE_A, ZONE_B)), NODE, id="one of the terms met"),
        pytest.param(replace(POD, required_terms=(NAMED,)), NODE, id="the node's name as a field"),
        pytest.param(replace(POD, tolerations=TOLERATES_CORDON), CORDONED, id="a tolerated cordon"),
        pytest.param(replace(POD, requests={"cpu": Fraction(2)}), NODE, id="the last free cores"),
    ],
)
def test_a_node_every_filter_lets_pass(pod: PodNeeds, node: NodeFacts) -> None:
    assert verdict(pod, node) is None


@pytest.mark.parametrize(
    ("pod", "node", "expected"),
    [
        pytest.param(
            POD,
            CORDONED,
            InTreeRejection("NodeUnschedulable", UNSCHEDULABLE, have=UNSCHEDULABLE_TAINT),
            id="a cordoned node, whose taint says the same",
        ),
        pytest.param(
            POD,
            replace(CORDONED, taints=(*CORDONED.taints, *TAINTED.taints)),
            InTreeRejection("NodeUnschedulable", UNSCHEDULABLE, have=UNSCHEDULABLE_TAINT, alone=False),
            id="a cordoned node with another taint",
        ),
        pytest.param(
            replace(POD, node_name="node-2", requests={"cpu": Fraction(3)}),
            NODE,
            InTreeRejection("NodeName", MISNAMED, needed="node-2", have="node-1", alone=False),
            id="a pod that names another node and would find too little CPU here",
        ),
        pytest.param(
            replace(POD, node_name="node-2"),
            NODE,
            InTreeRejection("NodeName", MISNAMED, needed="node-2", have="node-1"),
            id="a pod that names another node",
        ),
        pytest.param(
            POD,
            TAINTED,
            InTreeRejection(
                "TaintToleration", "node(s) had untolerated taint(s)", have="dedicated=gpu:NoSchedule"
            ),
            id="an untolerated taint",
        ),
        pytest.param(
            replace(POD, node_selector={"zone": "b", "disk": "ssd"}),
            NODE,
            InTreeRejection("NodeAffinity", AFFINITY, needed="disk=ssd", have="disk=hdd"),
            id="a selector with one label different",
        ),
        pytest.param(
            replace(POD, node_selector={"zone": "b"}, required_terms=(ZONE_A,)),
            NODE,
            InTreeRejection("NodeAffinity", AFFINITY, needed="zone In [a]", have="zone=b"),
            id="selector and affinity must both be met",
        ),
        pytest.param(
            replace(POD, required_terms=()),
            NODE,
            InTreeRejection("NodeAffinity", AFFINITY),
            id="an affinity without terms matches nothing",
        ),
        pytest.param(
            replace(POD, requests={"cpu": Fraction(8)}),
            NODE,
            InTreeRejection("NodeResourcesFit", "Insufficient cpu", resolvable=True, needed="8", have="2"),
            id="too few free cores, all of which a pod may have",
        ),
        pytest.param(
            replace(POD, requests={"cpu": Fraction(4), "memory": Fraction(64 * 2**30)}),
            NODE,
            InTreeRejection(
                "NodeResourcesFit", "Insufficient cpu, Insufficient memory", needed="4, 64Gi", have="2, 32Gi"
            ),
            id="two shortages, one of them curable by preemption",
        ),
        pytest.param(
            POD,
            replace(NODE, pod_count=110),
            InTreeRejection("NodeResourcesFit", "Too many pods", resolvable=True, needed="1", have="0"),
            id="a node full of pods",
        ),
    ],
)
def test_the_refusing_filter_speaks(pod: PodNeeds, node: NodeFacts, expected: InTreeRejection) -> None:
    assert verdict(pod, node) == expected


def test_filters_speak_in_kube_scheduler_order() -> None:
    full = replace(NODE, pod_count=110)
    tainted = replace(full, taints=TAINTED.taints)
    cordoned = replace(tainted, unschedulable=True)
    selective = replace(POD, node_selector={"rack": "7"})
    misnamed = replace(selective, node_name="node-2")
    mended_one_by_one = [
        (misnamed, cordoned),
        (misnamed, tainted),
        (selective, tainted),
        (selective, full),
        (POD, full),
    ]
    rejections = [verdict(pod, node) for pod, node in mended_one_by_one]
    assert [rejection.plugin for rejection in rejections if rejection] == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
    ]


def test_ignored_resources_do_not_refuse_a_node() -> None:
    share = "gpu.example.com/memory-mib"
    pod = replace(POD, requests={share: Fraction(40960), "cpu": Fraction(3)})
    found = intree_rejection(pod, NODE, ignore_resources=frozenset({share}))
    assert found is not None
    assert found.reason == "Insufficient cpu"
