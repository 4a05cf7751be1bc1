"""explain: the order of its nodes, their devices, and the holdings of lower priorities."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from scheduler_ext.core.errors import PodError
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration, FilterSection
from scheduler_ext.wire.objects import assemble, read_objects
from tests.explain.explaining import explained, mig, only
from tests.kube_objects import SHARE, Json, gpu, gpu_node, holder, inventory, names_body, node, pod

WHOLE = "nvidia.com/gpu"
ONE_G = "nvidia.com/mig-1g.10gb"
MODEL = "gpu.scheduler-ext.io/model"


def test_a_total_is_the_weighted_sum_of_its_terms() -> None:
    entry = only(explained(pod("p", {WHOLE: "1"}), gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"})))
    assert sum(term["weight"] for term in entry["terms"]) == pytest.approx(1, abs=1e-5)
    total = sum(term["weight"] * term["value"] for term in entry["terms"])
    assert entry["total"] == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize(
    ("limits", "annotations", "words"),
    [
        pytest.param(
            {WHOLE: 0.5}, {}, [WHOLE, "fractional", SHARE], id="half a GPU names the resource of shares"
        ),
        pytest.param({WHOLE: "A100"}, {}, [WHOLE, MODEL], id="a model as amount names the annotation"),
        pytest.param({WHOLE: "1", "nvidia.com/gpumem": "8000"}, {}, ["nvidia.com/gpumem", SHARE], id="HAMi"),
        pytest.param(
            {WHOLE: "1"}, {"gpu-fraction": "0.5"}, ["gpu-fraction", SHARE], id="KAI-Scheduler's fraction"
        ),
        pytest.param(
            {"gpu.scheduler-ext.io/memory": "8192"},
            {},
            ["resource gpu.scheduler-ext.io/memory ", SHARE],
            id="our own resource, misspelt",
        ),
        pytest.param({MODEL: 1}, {}, [f"resource {MODEL}", f"annotation {MODEL}"], id="ours as a resource"),
        pytest.param(
            {WHOLE: "1"},
            {SHARE: "8192"},
            [f"annotation {SHARE}", "it is a resource", "limits"],
            id="our resource as an annotation",
        ),
    ],
)
def test_a_wish_in_another_spelling_names_ours(
    limits: dict[str, Any], annotations: dict[str, str], words: list[str]
) -> None:
    asking = pod("p", limits, annotations=annotations)
    explanation = explained(asking, gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}))
    said = [explanation["invalid"] or "", *explanation["warnings"], *explanation["advice"]]
    assert [text for text in said if all(word in text for word in words)]


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        pytest.param(
            {"requests": {"vpc.amazonaws.com/efa": 4}},
            "container 'main': 'vpc.amazonaws.com/efa': resources.requests has '4' and resources.limits "
            "nothing, so the API server refuses the pod; write '4' in resources.limits, too",
            id="network devices without a limit",
        ),
        pytest.param(
            {"requests": {"hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "8Mi"}},
            "make them equal",
            id="huge pages with another limit",
        ),
        pytest.param(
            {"requests": {"cpu": "4"}, "limits": {"cpu": "2"}},
            "'cpu': resources.requests has '4' and resources.limits '2', so the API server refuses the pod; "
            "lower the first",
            id="more CPU than the limit",
        ),
    ],
)
def test_amounts_that_the_api_server_refuses_are_named(resources: Json, problem: str) -> None:
    asking = pod("p", {WHOLE: "1"})
    mine = asking["spec"]["containers"][0]["resources"]
    mine["requests"] = resources["requests"]
    mine["limits"] |= resources.get("limits", {})
    (warning,) = explained(asking, gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}))["warnings"]
    assert problem in warning


def test_amounts_that_the_api_server_accepts_need_no_note() -> None:
    asking = pod("p", {WHOLE: "1", "cpu": "4", "vpc.amazonaws.com/efa": "4"})
    asking["spec"]["containers"][0]["resources"]["requests"] = {
        "memory": "1Gi",
        "cpu": "2",
        "vpc.amazonaws.com/efa": "4.0",
    }
    assert explained(asking, gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}))["warnings"] == []


def test_a_model_among_the_resources_is_refused_with_the_annotation() -> None:
    asking = pod("p", {WHOLE: "1", "nvidia.com/gpu.type": "A100"})
    with pytest.raises(PodError, match=r"nvidia\.com/gpu\.type: .*gpu\.scheduler-ext\.io/model"):
        explained(asking, gpu_node("n", [gpu(0)]))


def test_our_own_spelling_needs_no_hint() -> None:
    asking = pod("p", {SHARE: "8192"}, annotations={MODEL: "A100", "example.com/team": "gpu"})
    assert explained(asking, gpu_node("n", [gpu(0)]), node("n", {SHARE: "9000"}))["warnings"] == []


def test_best_first_and_rejections_by_name() -> None:
    objects = [
        gpu_node(name, [gpu(i) for i in range(count)])
        for name, count in (("d", 1), ("b", 4), ("a", 1), ("e", 8))
    ]
    objects += [gpu_node(name, []) for name in ("z", "c")]
    explanation = explained(pod("p", {WHOLE: "1"}), *objects)
    entries = explanation["nodes"]
    fitting = [entry for entry in entries if entry["verdict"] == "fits"]
    totals = [entry["total"] for entry in fitting]
    scores = [entry["score"] for entry in fitting]
    assert totals == sorted(totals, reverse=True)
    assert scores == sorted(scores, reverse=True)
    assert [entry["node"] for entry in entries[:2]] == ["a", "d"]
    assert explanation["best"] == ["a", "d"]
    assert [entry["node"] for entry in entries[4:]] == ["c", "z"]


@pytest.mark.parametrize("max_candidates", [0, 2])
def test_scores_are_those_kube_scheduler_gets(max_candidates: int) -> None:
    objects = [gpu_node(f"n{i}", [gpu(j) for j in range(i + 1)]) for i in range(5)]
    config = Configuration(filter=FilterSection(max_candidates=max_candidates))
    extender = Extender(config)
    extender.replace_nodes(assemble(read_objects(inventory(*objects)), config.resource_names()).values())
    asking, names = pod("p", {WHOLE: "1"}), [f"n{i}" for i in range(5)]
    deadline = time.monotonic() + 60
    given_back = json.loads(extender.filter(names_body(asking, names), deadline).body)["NodeNames"]
    scored = json.loads(extender.prioritize(names_body(asking, given_back), deadline).body)
    expected = dict.fromkeys(names, 0) | {entry["Host"]: entry["Score"] for entry in scored}
    explanation = explained(asking, *objects, config=config)
    assert {entry["node"]: entry["score"] for entry in explanation["nodes"]} == expected


def test_devices_say_who_gets_what() -> None:
    asking = pod(
        "p",
        containers=[
            {"name": "view", "resources": {"limits": {SHARE: "4000"}}},
            {"name": "train", "resources": {"limits": {WHOLE: "2", ONE_G: "1"}}},
        ],
        initContainers=[{"name": "load", "resources": {"limits": {SHARE: "70000"}}}],
    )
    devices = [gpu(i) for i in range(4)] + [gpu(4, mig=mig(("1g.10gb", 0, 1)))]
    entry = only(explained(asking, gpu_node("n", devices)))
    assert entry["verdict"] == "fits"
    plugin: Json = {"uuid": None, "start": None, "memoryMiB": None}
    by_plugin = [device for device in entry["devices"] if device["uuid"] is None]
    assert sorted(by_plugin, key=str) == sorted(
        [
            plugin | {"container": "train", "profile": None},
            plugin | {"container": "train", "profile": None},
            plugin | {"container": "train", "profile": "1g.10gb"},
        ],
        key=str,
    )
    ours = {device["container"]: device for device in entry["devices"] if device["uuid"] is not None}
    assert {name: (d["memoryMiB"], d["profile"]) for name, d in ours.items()} == {
        "view": (4000, None),
        "load": (70000, None),
    }
    assert {d["uuid"] for d in ours.values()} <= {f"GPU-{i}" for i in range(4)}


def test_an_invalid_pod_says_what_and_how_to_fix_it() -> None:
    explanation = explained(pod("p", {SHARE: "8Gi"}), gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}))
    assert "8192 means 8 GiB" in explanation["invalid"]
    assert (explanation["fits"], explanation["best"]) == (False, [])
    entry = only(explanation)
    assert (entry["verdict"], entry["reason"]) == ("rejected", "pod's GPU request is invalid")
    assert (entry["nearestMiss"], entry["resolvable"]) == (None, False)


@pytest.mark.parametrize(
    ("count", "priority", "resolvable"),
    [
        pytest.param(1, 10, True, id="a pod of lower priority holds a GPU"),
        pytest.param(1, 5, False, id="those of equal priority stay"),
        pytest.param(2, 10, False, id="only those of lower priority would leave"),
    ],
)
def test_would_it_fit_if_lower_priorities_left(count: int, priority: int, resolvable: bool) -> None:
    held = {"low": 5, "high": 10}
    devices = [gpu(i, f"GPU-{i}", holders=[holder(name)]) for i, name in enumerate(held)]
    pods = [pod(name, {WHOLE: "1"}, on="n", priority=of) for name, of in held.items()]
    asking = pod("p", {WHOLE: str(count)}, priority=priority)
    entry = only(explained(asking, gpu_node("n", devices), *pods))
    assert (entry["verdict"], entry["resolvable"]) == ("rejected", resolvable)
