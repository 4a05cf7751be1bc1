"""explain: the verdicts of kube-scheduler itself, the parts without a model, and the warnings."""

from __future__ import annotations

import json

import msgspec
import pytest

from scheduler_ext.core.errors import InventoryError
from scheduler_ext.explain.ineffective import unserved
from scheduler_ext.explain.sentences import ENDED
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from tests.explain.explaining import explained, only
from tests.kube_objects import ANNOTATION, Json, gpu, gpu_node, node, pod

WHOLE = "nvidia.com/gpu"
ZONE_B = {"key": "zone", "operator": "In", "values": ["b"]}
IN_ZONE_B = {"nodeSelectorTerms": [{"matchExpressions": [ZONE_B]}]}


IN_OTHER_ZONE = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": IN_ZONE_B}}


@pytest.mark.parametrize(
    ("limits", "spec", "resolvable", "miss"),
    [
        pytest.param(
            {},
            {"affinity": IN_OTHER_ZONE},
            False,
            ("NodeAffinity", "zone In [b]", "zone=a"),
            id="another zone required",
        ),
        pytest.param(
            {"cpu": "63"}, {}, True, ("NodeResourcesFit", "63", "62"), id="CPU that another pod holds"
        ),
    ],
)
def test_refusals_of_kube_scheduler_are_marked(
    limits: Json, spec: Json, resolvable: bool, miss: tuple[str, str, str]
) -> None:
    objects = [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}, labels={"zone": "a"})]
    explanation = explained(
        pod("p", limits | {WHOLE: "1"}, **spec), *objects, pod("busy", {"cpu": "2"}, on="n")
    )
    entry = only(explanation)
    assert (entry["verdict"], entry["by"], entry["resolvable"]) == ("rejected", "kubernetes", resolvable)
    assert tuple(entry["nearestMiss"][key] for key in ("criterion", "needed", "have")) == miss
    assert (explanation["fits"], explanation["best"]) == (False, [])


def test_a_node_without_a_node_object_is_compared_by_name_with_a_note() -> None:
    spec: Json = {"nodeSelector": {"zone": "b"}, "nodeName": "n"}
    objects = [gpu_node("n", [gpu(0)]), gpu_node("other", [gpu(0)])]
    explanation = explained(pod("p", {WHOLE: "1", "cpu": "1000"}, **spec), *objects)
    assert explanation["best"] == ["n"]
    assert explanation["nodes"][1]["reason"] == "node(s) didn't match the requested node name"
    assert explanation["warnings"] == [
        "no Node object of n and 1 more: selectors, affinity, taints, CPU and memory are not compared there"
    ]


PRICE = "gpu.scheduler-ext.io/value"


@pytest.mark.parametrize(
    ("labels", "annotations", "warned"),
    [
        pytest.param({PRICE: "cheap"}, {}, True, id="a bad label"),
        pytest.param({PRICE: "2.5"}, {PRICE: "cheap"}, False, id="a good label before a bad annotation"),
    ],
)
def test_a_price_that_is_no_number_is_a_warning(labels: Json, annotations: Json, warned: bool) -> None:
    priced = node("n", {WHOLE: "1"}, labels=labels)
    priced["metadata"]["annotations"] = annotations
    warnings = explained(pod("p", {WHOLE: "1"}), gpu_node("n", [gpu(0)]), priced)["warnings"]
    expected = f"{PRICE} of n: 'cheap' is no price such as 2.5, so the model's counts"
    assert warnings == ([expected] if warned else [])


def test_the_best_are_the_best_of_those_that_kube_scheduler_lets_pass() -> None:
    objects = [gpu_node(name, [gpu(i) for i in range(count)]) for name, count in (("tight", 1), ("roomy", 8))]
    objects += [node("tight", {WHOLE: "1"}, unschedulable=True), node("roomy", {WHOLE: "8"})]
    explanation = explained(pod("p", {WHOLE: "1"}), *objects)
    assert explanation["best"] == ["roomy"]
    assert [(entry["node"], entry["score"]) for entry in explanation["nodes"]] == [
        ("roomy", 10),
        ("tight", 0),
    ]


def test_an_unmodelled_feature_is_named_when_the_pod_uses_it() -> None:
    spec: Json = {"schedulingGates": [{"name": "wait"}], "resourceClaims": [{"name": "c"}]}
    explanation = explained(pod("p", {WHOLE: "1"}, **spec), gpu_node("n", [gpu(0)]))
    assert explanation["notModelled"] == [
        "resource claims (DRA)",
        "scheduling gate wait: the component that set it has to remove it",
    ]
    assert explanation["fits"]


@pytest.mark.parametrize(
    ("limits", "annotations", "warnings"),
    [
        pytest.param(
            {WHOLE: "1"},
            {"modle": "A100"},
            [
                "annotation gpu.scheduler-ext.io/modle: unknown, does nothing; did you mean "
                "gpu.scheduler-ext.io/model?"
            ],
            id="a typo",
        ),
        pytest.param(
            {WHOLE: "1"},
            {"max-duration": "two hours"},
            [
                "annotation gpu.scheduler-ext.io/max-duration: 'two hours' is no duration; write one such as "
                "150s, 2m30s or 500ms; it counts as not set"
            ],
            id="words for a duration",
        ),
        pytest.param(
            {WHOLE: "1"},
            {"gang": "train", "gang-sise": "8"},
            [
                "annotation gpu.scheduler-ext.io/gang-sise: unknown, does nothing; did you mean "
                "gpu.scheduler-ext.io/gang-size?",
                "its gang cannot start: annotation gpu.scheduler-ext.io/gang names the gang train, but not "
                'how many pods it has; add the annotation gpu.scheduler-ext.io/gang-size, such as "8", to '
                "all of them",
            ],
            id="a gang whose size is misspelt",
        ),
        pytest.param(
            {WHOLE: "1"},
            {"gang-node": "n", "reclaim-at": "2026-11-29T04:00:00Z"},
            [],
            id="what the extender has written",
        ),
        pytest.param(
            {},
            {"model": "A100"},
            ["the pod asks no GPU resource, so this extender refuses no node; its annotations do nothing"],
            id="wishes, but no GPU asked",
        ),
        pytest.param(
            {"google.com/tpu": "4", "rdma/hca": "1"},
            {},
            [
                "the pod asks no GPU resource, so this extender refuses no node; only kube-scheduler counts "
                "google.com/tpu and rdma/hca"
            ],
            id="devices that are no GPUs",
        ),
    ],
)
def test_warnings(limits: Json, annotations: dict[str, str], warnings: list[str]) -> None:
    asking = pod("p", limits, annotations={ANNOTATION + key: value for key, value in annotations.items()})
    assert explained(asking, gpu_node("n", [gpu(0)]), node("n"))["warnings"] == warnings


def test_a_pod_that_has_ended_is_explained_with_a_note() -> None:
    ended = pod("p", {WHOLE: "1"}, phase="Failed")
    answer = explained(ended, gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}))
    assert (answer["fits"], answer["warnings"]) == (True, [ENDED])


ONLY_KUBE = "this extender does not count it, only kube-scheduler does"


@pytest.mark.parametrize(
    ("limits", "allocatable", "warnings"),
    [
        pytest.param(
            {"nvidia.com/a100": "2"},
            {"nvidia.com/a100": "4"},
            [
                f"resource nvidia.com/a100: {ONLY_KUBE}; 1 node has it: if these are GPUs, add it to "
                "resources.wholeGpu of the configuration"
            ],
            id="renamed: nodes have it",
        ),
        pytest.param(
            {"nvdia.com/gpu": "1"},
            {WHOLE: "4"},
            [
                f"resource nvdia.com/gpu: {ONLY_KUBE}; no node has it in its allocatable; did you mean "
                "nvidia.com/gpu?"
            ],
            id="misspelt: the nearest configured one",
        ),
        pytest.param(
            {"nvidia.com/h200": "1"},
            {WHOLE: "4", "nvidia.com/mig-1g.10gb": "7"},
            [
                f"resource nvidia.com/h200: {ONLY_KUBE}; no node has it in its allocatable; the nodes' GPUs "
                "are nvidia.com/gpu or nvidia.com/mig-1g.10gb"
            ],
            id="unknown: those that nodes offer",
        ),
        pytest.param(
            {"gpu": "1"},
            {WHOLE: "4"},
            [
                "resource gpu: the API server refuses the pod, because names of devices have a domain, such "
                "as nvidia.com/gpu"
            ],
            id="without a domain",
        ),
    ],
)
def test_resources_that_only_kube_scheduler_counts(
    limits: Json, allocatable: Json, warnings: list[str]
) -> None:
    assert explained(pod("p", limits), node("n", allocatable))["warnings"] == warnings


def test_gpus_of_the_whole_pod_are_of_no_container() -> None:
    asking = pod("p", {}, resources={"limits": {WHOLE: "1", "cpu": "2"}})
    (warning,) = explained(asking, node("n", {WHOLE: "4"}))["warnings"]
    assert warning.startswith(f"spec.resources asks {WHOLE} for the whole pod: Kubernetes allows only cpu")


@pytest.mark.parametrize(
    ("spec", "notes"),
    [
        pytest.param({"schedulerName": "gpu-scheduler"}, [], id="a scheduler of the extender"),
        pytest.param(
            {"schedulerName": "volcano"},
            [
                "its schedulerName is volcano, which does not ask this extender: the answer holds for "
                "schedulerName: gpu-scheduler"
            ],
            id="another one",
        ),
        pytest.param(
            {},
            [
                "it has no schedulerName, so default-scheduler places it, which does not ask this extender: "
                "the answer holds for schedulerName: gpu-scheduler"
            ],
            id="none",
        ),
    ],
)
def test_a_pod_of_another_scheduler(spec: Json, notes: list[str]) -> None:
    def asked(limits: Json) -> kube.Pod:
        return msgspec.json.decode(json.dumps(pod("p", limits, **spec)).encode(), type=kube.Pod)

    assert unserved(asked({WHOLE: "1"}), Configuration()) == notes
    assert unserved(asked({"cpu": "1"}), Configuration()) == []


def test_an_unreadable_node_is_an_error_that_names_it() -> None:
    with pytest.raises(InventoryError, match=r"^Node n or a pod on it: cpu: "):
        explained(pod("p", {WHOLE: "1"}), node("n", {"cpu": "lots"}))
