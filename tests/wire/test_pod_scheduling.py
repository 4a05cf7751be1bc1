"""A pod's fields for kube-scheduler itself: soft preferences, filters, and unmodelled fields."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scheduler_ext.core.intree import NodeSelectorTerm, PreferredTerm, Requirement
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.pod import pod_amounts as amounts
from scheduler_ext.wire.pod.pod_amounts import pod_amounts
from scheduler_ext.wire.pod.pod_needs import not_modelled, pod_needs
from scheduler_ext.wire.pod.pod_request import has_soft_preferences, unparsed_request
from tests.kube_objects import Json
from tests.wire.decoded_pods import container, spec_of, with_spec

NAMES = ResourceNames()
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"weight": 1, "preference": {}}
HARD_SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
SOFT_SPREAD = HARD_SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"}


@pytest.mark.parametrize(
    ("spec", "soft"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"affinity": {"nodeAffinity": {PREFERRED: [TERM]}}}, True, id="preferred node affinity"),
        pytest.param({"affinity": {"podAffinity": {PREFERRED: [TERM]}}}, True, id="preferred pod affinity"),
        pytest.param({"affinity": {"podAntiAffinity": {PREFERRED: [TERM]}}}, True, id="anti-affinity"),
        pytest.param({"affinity": {"nodeAffinity": {PREFERRED: []}}}, False, id="an empty preference"),
        pytest.param(
            {"affinity": {"nodeAffinity": {PREFERRED: None}, "podAffinity": None}}, False, id="null"
        ),
        pytest.param({"affinity": {"podAffinity": {REQUIRED: [{}]}}}, False, id="a required one is not soft"),
        pytest.param({"topologySpreadConstraints": [SOFT_SPREAD]}, True, id="soft spread"),
        pytest.param({"topologySpreadConstraints": [HARD_SPREAD]}, False, id="hard spread"),
    ],
)
def test_soft_preferences(spec: Json, soft: bool) -> None:
    assert has_soft_preferences(spec_of(**spec)) is soft
    assert unparsed_request(with_spec(**spec), NAMES).soft_preferences is soft


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        pytest.param({}, [], id="a plain pod"),
        pytest.param({"affinity": {"podAffinity": {REQUIRED: [{}]}}}, ["pod affinity"], id="pod affinity"),
        pytest.param(
            {"affinity": {"podAntiAffinity": {REQUIRED: [{}]}}}, ["pod anti-affinity"], id="anti-affinity"
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}}, [], id="node affinity is"
        ),
        pytest.param(
            {"topologySpreadConstraints": [HARD_SPREAD]},
            ["topology spread constraints"],
            id="hard spread",
        ),
        pytest.param(
            {"topologySpreadConstraints": [SOFT_SPREAD]},
            ["topology spread with ScheduleAnyway"],
            id="soft spread",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {PREFERRED: [TERM]}}}, [], id="preferred node affinity is"
        ),
        pytest.param(
            {"affinity": {"podAffinity": {PREFERRED: [TERM]}}},
            ["preferred pod affinity"],
            id="preferred pod affinity",
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": {PREFERRED: [TERM]}}},
            ["preferred pod anti-affinity"],
            id="preferred pod anti-affinity",
        ),
        pytest.param({"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}, ["volumes"], id="a claim"),
        pytest.param({"volumes": [{"ephemeral": {}}]}, ["volumes"], id="an ephemeral volume"),
        pytest.param(
            {"volumes": [{"emptyDir": {}}, {"configMap": {"name": "c"}}]}, [], id="volumes of no node"
        ),
        pytest.param({"containers": [{"ports": [{"hostPort": 80}]}]}, ["host ports"], id="a host port"),
        pytest.param(
            {"containers": [{"ports": [{"containerPort": 80, "hostPort": 0}]}]}, [], id="no host port"
        ),
        pytest.param({"priorityClassName": "high"}, ["priorityClassName"], id="a class without its number"),
        pytest.param({"priorityClassName": "high", "priority": 5}, [], id="a class with its number"),
        pytest.param({"priorityClassName": "system-node-critical"}, [], id="a class every cluster has"),
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, ["resource claims"], id="DRA"),
        pytest.param(
            {"schedulingGates": [{"name": "wait"}, {"name": "kueue.x-k8s.io/topology"}]},
            [
                "scheduling gate wait: the component",
                "scheduling gate kueue.x-k8s.io/topology: Kueue removes it",
            ],
            id="each gate with its owner",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "gpu.scheduler-ext.io/gang"}]},
            ["scheduling gate gpu.scheduler-ext.io/gang: this extender removes it"],
            id="the gate of gangs",
        ),
    ],
)
def test_unmodelled_fields_are_named(spec: Json, features: list[str]) -> None:
    named = not_modelled(with_spec(**spec))
    assert [name[: len(feature)] for feature, name in zip(features, named, strict=True)] == features


def test_the_fields_that_kube_scheduler_compares_are_read() -> None:
    pod = with_spec(
        nodeName="",
        nodeSelector={"zone": "a", "null": None},
        affinity={
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a", "b"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": None}]},
                    ]
                },
                PREFERRED: [
                    {
                        "weight": 7,
                        "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
                    },
                    {"weight": None, "preference": None},
                ],
            }
        },
        tolerations=[{"operator": "Exists", "effect": "NoSchedule"}],
        overhead={"cpu": "100m"},
        containers=[container(limits={"cpu": "2"}), container(requests={"cpu": "500m", "memory": 1024})],
    )
    needs = pod_needs(pod)
    assert needs.node_name is None
    assert needs.node_selector == {"zone": "a"}
    assert needs.required_terms is not None
    assert [[r.key for r in (*t.expressions, *t.fields)] for t in needs.required_terms] == [
        ["gpu"],
        ["metadata.name"],
    ]
    assert needs.preferred_terms == (
        PreferredTerm(7, NodeSelectorTerm((Requirement("zone", "Exists", ()),), ())),
        PreferredTerm(0, NodeSelectorTerm((), ())),
    )
    assert [(t.key, t.operator, t.value, t.effect) for t in needs.tolerations] == [
        ("", "Exists", "", "NoSchedule")
    ]
    assert needs.requests["cpu"] == Fraction(26, 10)
    assert needs.requests["memory"] == 1024


def test_requests_go_before_limits_and_limits_stand_in_for_them() -> None:
    asked = container(limits={"cpu": "4", "memory": "1Gi"}, requests={"cpu": "1"})
    assert pod_amounts(spec_of(containers=[asked])) == {"cpu": 1, "memory": 2**30}


@pytest.mark.parametrize(
    ("containers", "remembered"),
    [pytest.param(2, 1, id="a usual pod"), pytest.param(1000, 0, id="a pod of a thousand containers")],
)
def test_only_usual_pods_are_remembered(containers: int, remembered: int) -> None:
    amounts._remembered_amounts.cache_clear()
    spec = spec_of(containers=[container(requests={"cpu": "250m"})] * containers)
    # The caller may change the answer.
    pod_amounts(spec).clear()
    assert pod_amounts(spec) == {"cpu": Fraction(containers, 4)}
    assert amounts._remembered_amounts.cache_info().currsize == remembered


def test_unreadable_amounts_name_their_resource() -> None:
    with pytest.raises(QuantityError, match=r"^cpu: quantity 'lots' cannot be read"):
        pod_needs(with_spec(containers=[container(limits={"cpu": "lots"})]))
    with pytest.raises(QuantityError, match=r"^cpu: expected a quantity"):
        pod_needs(with_spec(containers=[container(limits={"cpu": True})]))
