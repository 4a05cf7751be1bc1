"""Lists of pods: selected, ordered, bounded, and summed by namespace."""

from __future__ import annotations

import pytest

from scheduler_ext.features.page.pod_lists import SORTS, PlacedPods, PodQuery
from tests.explain.test_replay import Running, running
from tests.kube_objects import Json, gpu, gpu_node, node, pod

WHOLE = "nvidia.com/gpu"


def of(namespace: str, name: str, gpus: int, on: str | None = None, minute: int = 0) -> Json:
    made = pod(name, {WHOLE: str(gpus)}, on=on)
    stamp = f"2026-11-01T00:{minute:02}:00Z"
    made["metadata"] |= {
        "namespace": namespace,
        "uid": f"{namespace}/{name}",
        "creationTimestamp": stamp,
    }
    if on is not None:
        made["status"]["startTime"] = stamp
    return made


def being_deleted(waiting: Json) -> Json:
    waiting["metadata"]["deletionTimestamp"] = "2026-11-01T01:00:00Z"
    return waiting


@pytest.fixture(scope="module")
def there() -> Running:
    nodes = ("h100-1", "H100-80GB", "train"), ("t4-1", "T4", "spot")
    return running(
        *(gpu_node(name, [gpu(i, f"{name}-{i}", model=model) for i in range(8)]) for name, model, _ in nodes),
        *(node(name, {WHOLE: "8"}, labels={"karpenter.sh/nodepool": pool}) for name, _, pool in nodes),
        of("research", "train", 4, on="h100-1", minute=3),
        of("research", "Eval", 1, on="t4-1", minute=1),
        of("vision", "train", 2, on="h100-1", minute=2),
        of("vision", "waits", 8, minute=5),
        of("vision", "waits-longer", 8, minute=4),
        of("speech", "train-later", 8, minute=6),
        being_deleted(of("vision", "gone-soon", 8, minute=1)),
    )


def listed(there: Running, wanted: PodQuery, most: int = 10) -> list[str]:
    found = PlacedPods().listed(there.snapshot, wanted, most)
    return [f"{each['namespace']}/{each['name']}" for each in found["pods"]]


ALL = ["research/Eval", "research/train", "vision/train"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        pytest.param(PodQuery(), ALL, id="all"),
        pytest.param(PodQuery(find="EVAL"), ["research/Eval"], id="by a part of the name in any case"),
        pytest.param(PodQuery(namespace="vision"), ["vision/train"], id="by namespace"),
        pytest.param(PodQuery(namespace="vis"), [], id="by the whole name of the namespace only"),
        pytest.param(PodQuery(node="H100"), ALL[1:], id="by a part of the node's name"),
        pytest.param(PodQuery(model="T4"), ["research/Eval"], id="by model"),
        pytest.param(PodQuery(sort="gpus"), [ALL[1], ALL[2], ALL[0]], id="most GPUs first"),
        pytest.param(PodQuery(sort="oldest"), [ALL[0], ALL[2], ALL[1]], id="the oldest first"),
    ],
)
def test_pods_are_listed(there: Running, wanted: PodQuery, names: list[str]) -> None:
    assert listed(there, wanted) == names


@pytest.mark.parametrize("sort", SORTS)
def test_a_list_is_bounded_and_says_of_how_many(there: Running, sort: str) -> None:
    found = PlacedPods().listed(there.snapshot, PodQuery(sort=sort), 2)
    assert (found["total"], len(found["pods"])) == (3, 2)


def test_found_pods_run_or_wait_and_come_by_the_start_of_their_name(there: Running) -> None:
    found = PlacedPods().found(there.snapshot, there.pending(), "ai", 1)
    assert found == {
        "running": {"total": 2, "pods": [{"namespace": "research", "name": "train", "node": "h100-1"}]},
        "waiting": {"total": 3, "pods": [{"namespace": "speech", "name": "train-later"}]},
    }
    found = PlacedPods().found(there.snapshot, there.pending(), "Waits", 5)
    assert [each["name"] for each in found["waiting"]["pods"]] == ["waits", "waits-longer"]
    # Of the hits, those whose name begins with the text come before others.
    found = PlacedPods().found(there.snapshot, there.pending(), "v", 5)
    assert [each["name"] for each in found["running"]["pods"]] == ["Eval", "train"]


@pytest.mark.parametrize(
    ("find", "name"),
    [
        pytest.param("job", "c/job", id="the name itself"),
        pytest.param("c/JO", "c/job", id="the beginning with the namespace"),
        pytest.param("jo", "a/job-10", id="the beginning"),
        pytest.param("ob", "a/a-job", id="a part"),
    ],
)
def test_the_pod_whose_name_is_nearest_to_the_text_is_found_first(find: str, name: str) -> None:
    waiting = (of(*each, 1) for each in (("a", "a-job"), ("c", "job"), ("b", "job-1"), ("a", "job-10")))
    there = running(*waiting)
    (found,) = PlacedPods().found(there.snapshot, there.pending(), find, 1)["waiting"]["pods"]
    assert f"{found['namespace']}/{found['name']}" == name


def test_sums_by_namespace(there: Running) -> None:
    sums = PlacedPods().by_namespace(there.snapshot, there.pending(), 10)
    assert sums["total"] == 3
    research, vision, speech = sums["namespaces"]
    assert research == {
        "namespace": "research",
        "gpus": 5.0,
        "requestedMiB": 5 * 81_920,
        "usedMiB": None,
        "usedOf": 0,
        "running": 2,
        "waiting": 0,
        "waitingSince": None,
    }
    assert (vision["gpus"], vision["running"], vision["waiting"]) == (2.0, 1, 2)
    assert vision["waitingSince"] == 1_793_491_200.0 + 4 * 60, "of those that wait the longest"
    assert (speech["running"], speech["waiting"]) == (0, 1)
    assert PlacedPods().by_namespace(there.snapshot, (), 1)["total"] == 2


def test_a_change_of_a_node_changes_its_pods() -> None:
    changing = running(gpu_node("n", [gpu(0)]), of("a", "p", 1, on="n"))
    pods = PlacedPods()
    assert pods.listed(changing.snapshot, PodQuery(), 10)["total"] == 1
    emptied = running(gpu_node("n", [gpu(0)])).snapshot
    assert emptied is not None
    changing.extender.replace_nodes(node.info for node in emptied.nodes.values())
    assert pods.listed(changing.snapshot, PodQuery(), 10)["total"] == 0


def test_before_the_first_inventory_there_is_nothing() -> None:
    assert PlacedPods().listed(None, PodQuery(), 10) == {"total": 0, "pods": []}
