"""Inventory files: every form written by kubectl or people, and refused files."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from scheduler_ext.core.errors import InventoryError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.objects import Objects, assemble, read_objects, read_pods
from tests.dra_objects import resource_claim
from tests.kube_objects import GFD_H100, SHARE, Json, gpu, gpu_node, node, pod

NAMES = ResourceNames()
THREE = [
    gpu_node("n", [gpu(0)]),
    node("n", {"nvidia.com/gpu": "1"}),
    pod("p", {"nvidia.com/gpu": "1"}, on="n"),
]


def as_list(items: list[Json], kind: str = "List") -> Json:
    return {"apiVersion": "v1", "kind": kind, "items": items, "metadata": {"resourceVersion": ""}}


def without_kind(item: Json) -> Json:
    """An item of a typed list, as the API server sends it."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def names(objects: Objects) -> tuple[list[str], list[str], list[str | None]]:
    pods = [pod.metadata.name for pod in objects.pods if pod.metadata]
    return list(objects.gpu_nodes), list(objects.nodes), pods


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(as_list(THREE), indent=2), id="an indented JSON List"),
        pytest.param("\n\t " + json.dumps(as_list(THREE)), id="JSON after blank lines"),
        pytest.param(yaml.safe_dump(as_list(THREE)), id="a YAML List"),
        pytest.param(
            "---\n" + yaml.safe_dump_all(THREE) + "---\n# nothing here\n---\n", id="empty documents between"
        ),
        pytest.param("\n---\n".join(map(json.dumps, THREE)), id="JSON documents between YAML separators"),
        pytest.param(yaml.safe_dump(as_list([as_list(THREE[:1]), as_list(THREE[1:])])), id="a List of Lists"),
        pytest.param(
            yaml.safe_dump_all(
                [
                    as_list([without_kind(THREE[0])], "GPUNodeList"),
                    as_list([without_kind(THREE[1])], "NodeList"),
                    as_list([without_kind(THREE[2])], "PodList"),
                ]
            ),
            id="typed lists, whose items have no kind",
        ),
        pytest.param("{kind: List, items: " + json.dumps(THREE) + "} # flow style", id="YAML in flow style"),
    ],
)
def test_every_form_of_a_file_is_read(text: str) -> None:
    assert names(read_objects(text.encode())) == (["n"], ["n"], ["p"])


@pytest.mark.parametrize("text", [b"", b"# only a comment\n", b"---\n---\n", b"null"])
def test_a_file_without_any_object_is_refused(text: bytes) -> None:
    with pytest.raises(InventoryError, match=r"^empty; expected GPUNode, Node, Pod or a List of them$"):
        read_objects(text)


def test_a_cluster_without_objects_is_an_empty_list() -> None:
    assert names(read_objects(json.dumps(as_list([])).encode())) == ([], [], [])
    assert names(read_objects(b'{"kind": "List", "items": null}')) == ([], [], [])


def test_null_is_absent_in_yaml_as_in_json() -> None:
    text = b"kind: Pod\nmetadata: {name: p, labels: , annotations: {a: null}}\nspec: {containers: [null]}\n"
    assert names(read_objects(text))[2] == ["p"]


@pytest.mark.parametrize("timestamp", ["2026-11-20 13:10:16.5 +2", "2026-11-20"])
def test_timestamps_stay_text_without_quotes(timestamp: str) -> None:
    text = f"kind: GPUNode\nmetadata: {{name: n}}\nstatus: {{reportedAt: {timestamp}, devices: []}}\n"
    status = read_objects(text.encode()).gpu_nodes["n"].status
    assert status is not None
    assert status.reported_at == timestamp


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param(
            "kind: GPUNode\nmetadata: {name: n}\nstatus:\n  devices:\n"
            "  - {uuid: G, index: 0, memory: {totalMiB: 1}, computeCapability: 8.0}\n",
            ["GPUNode n: status.devices[0].computeCapability", 'quote it in YAML: "8.0"'],
            id="a capability that YAML reads as a number",
        ),
        pytest.param("kind: Service\n---\nfoo: 1", ["document 2", "no kind"], id="no kind"),
        pytest.param("kind: Pod\n---\nfoo: 1", ["document 1", "without metadata.name"], id="no name"),
        pytest.param(
            "kind: List\nitems: [{kind: Node, metadata: {}}]", ["document 1.items[0]", "Node"], id="an item"
        ),
        pytest.param("kind: List\nitems: {}", ["document 1", "items"], id="items that are no list"),
        pytest.param("- kind: Pod", ["document 1", "Expected `object`"], id="a bare sequence"),
        pytest.param("kind: 7", ["document 1: kind", "Expected `str"], id="a number for a kind"),
        pytest.param(
            "kind: GPUNode\napiVersion: gpu.scheduler-ext.io/v2\nmetadata: {name: n}",
            ["GPUNode n", "gpu.scheduler-ext.io/v2", "this release reads gpu.scheduler-ext.io/v1alpha1"],
            id="a version of GPUNode from the future",
        ),
        pytest.param(
            "kind: Pod\nmetadata: {name: p}\n---\nkind: Pod\nmetadata: {name: p}",
            ["Pod default/p", "twice"],
            id="a Pod twice",
        ),
        pytest.param("kind: Pod\n  metadata: {", ["neither YAML nor JSON", "line 2"], id="broken YAML"),
        pytest.param('{"kind": "Pod", ', ["neither YAML nor JSON"], id="truncated JSON"),
        pytest.param(
            "kind: Pod\nmetadata: &m {name: p, self: *m}",
            ["YAML, line 2: alias 'm': is a part of the value that it repeats"],
            id="a cycle",
        ),
    ],
)
def test_the_error_names_the_bad_field_of_a_file(text: str, named: list[str]) -> None:
    with pytest.raises(InventoryError) as refusal:
        read_objects(text.encode())
    message = str(refusal.value)
    assert [part for part in named if part not in message] == []
    assert "\n" not in message
    assert "byte string" not in message


def test_kinds_that_mean_nothing_here_are_skipped_and_counted() -> None:
    others = [{"kind": "Service"}, {"kind": "Service"}, {"kind": "DaemonSet", "spec": 5}]
    objects = read_objects(yaml.safe_dump_all([*others, as_list([{}], "EventList"), *THREE]).encode())
    assert objects.skipped == {"Service": 2, "DaemonSet": 1, "Event": 1}
    assert names(objects) == (["n"], ["n"], ["p"])


def test_a_dump_of_a_cluster_becomes_nodes() -> None:
    unscheduled = pod("waiting", {"nvidia.com/gpu": "1"})
    done = pod("done", {"nvidia.com/gpu": "1"}, on="n", phase="Succeeded")
    others = [node("labels", labels=GFD_H100), node("cpu"), gpu_node("bare", [gpu(0)])]
    items = [*THREE, unscheduled, done, *others]
    nodes = assemble(read_objects(json.dumps(as_list(items)).encode()), NAMES)
    assert sorted(nodes) == ["bare", "cpu", "labels", "n"]
    assert [(p.name, p.finished) for p in nodes["n"].pods] == [("p", False), ("done", True)]
    assert nodes["n"].allocatable == {"nvidia.com/gpu": 1}
    assert nodes["n"].uid == "uid-n"
    estimate = nodes["labels"].estimate
    assert estimate is not None
    assert (estimate.model.name, estimate.count) == ("H100-80GB", 8)
    assert (nodes["cpu"].report, nodes["cpu"].estimate, nodes["cpu"].allocatable) == (None, None, {})
    assert (nodes["bare"].allocatable, nodes["bare"].uid) == (None, None)


@pytest.mark.parametrize(
    ("item", "named"),
    [
        pytest.param(pod("p", {SHARE: True}, on="n"), f"Pod default/p: .*{SHARE}.*`true`", id="a Pod"),
        pytest.param(node("n", {"nvidia.com/gpu": "many"}), "Node n: status.*gpu: .*'many'", id="a Node"),
        pytest.param(
            pod("p", {"nvidia.com/gpu": True}) | {"status": {"nominatedNodeName": "n"}},
            r"Pod default/p: .*nvidia\.com/gpu",
            id="a nominated Pod",
        ),
    ],
)
def test_unreadable_amounts_refuse_the_file_by_name(item: Json, named: str) -> None:
    with pytest.raises(InventoryError, match=named):
        assemble(read_objects(json.dumps(item).encode()), NAMES)


def test_wishes_of_bound_pods_no_longer_matter() -> None:
    wishes = {"gpu.scheduler-ext.io/min-memory": "lots"}
    wishing = pod("p", {"nvidia.com/gpu": "1"}, on="n", annotations=wishes)
    nodes = assemble(read_objects(json.dumps(as_list([node("n"), wishing])).encode()), NAMES)
    assert len(nodes["n"].pods) == 1


def test_pods_by_node_are_those_that_still_hold_something() -> None:
    pods = [pod("a", on="n"), pod("b", on="n", phase="Failed"), pod("c", on="n", phase="Succeeded"), pod("d")]
    by_node = read_objects(json.dumps(as_list(pods)).encode()).pods_by_node()
    assert {name: [p.metadata.name for p in held if p.metadata] for name, held in by_node.items()} == {
        "n": ["a"]
    }


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        pytest.param([node("n")], "a Node is no Pod", id="a Node"),
        pytest.param([gpu_node("n", []), pod("p")], "a GPUNode is no Pod", id="a pod beside something else"),
        pytest.param(
            [{"kind": "Deployment", "metadata": {"name": "web"}}],
            "no Pod in it; Deployment web has no pod template with containers; give",
            id="a Deployment without a template",
        ),
        pytest.param(
            [{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "gpu"}}],
            "no Pod in it; ScaledObject gpu has no pod template with containers; give .*; "
            "see docs/tasks/scale-on-gpu-metrics.md for this ScaledObject",
            id="a kind that a page deals with",
        ),
        pytest.param(
            [resource_claim("shared")],
            "ResourceClaim default/shared has no .*; see docs/tasks/dra.md for this ResourceClaim",
            id="a claim alone",
        ),
        pytest.param(
            [{"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "spec": {"x": "nvidia.com/gpu"}}],
            "or a workload such as a Deployment$",
            id="a kind that has the name of one that a page deals with",
        ),
    ],
)
def test_a_pod_file_has_pods_only(items: list[Any], problem: str) -> None:
    with pytest.raises(InventoryError, match=problem):
        read_pods(json.dumps(as_list(items)).encode())


def test_pending_pods_hold_the_place_that_others_leave_for_them() -> None:
    def waiting(name: str, on: str = "n", **more: Any) -> Json:
        one = pod(name, {"nvidia.com/gpu": "1"}, priority=7)
        return one | {"status": {"phase": "Pending", "nominatedNodeName": on}} | more

    deleted = waiting("deleted")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bound = waiting("bound")
    bound["spec"]["nodeName"] = "n"
    items = [
        *THREE[:2],
        waiting("p"),
        waiting("elsewhere", "m"),
        waiting("finished", status={"phase": "Failed", "nominatedNodeName": "n"}),
        deleted,
        bound,
        pod("plain", {"nvidia.com/gpu": "1"}),
        waiting("invalid", spec={"containers": [{"resources": {"limits": {"nvidia.com/gpu": "-1"}}}]}),
    ]
    infos = assemble(read_objects(json.dumps(as_list(items)).encode()), NAMES)
    assert [(each.uid, each.priority) for each in infos["n"].nominated] == [("uid-p", 7)]
    assert [each.uid for each in infos["n"].pods] == ["uid-bound"]


def test_disruption_budgets_are_read() -> None:
    item = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "team"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 2},
    }
    (budget,) = read_objects(json.dumps(item).encode()).budgets
    assert (budget.namespace, budget.name, budget.allowed) == ("team", "b", 2)
    with pytest.raises(InventoryError, match="PodDisruptionBudget team/b has no pod template"):
        read_pods(json.dumps(item).encode())
    with pytest.raises(InventoryError, match=r"^PodDisruptionBudget team/b: status\.disruptionsAllowed"):
        read_objects(json.dumps(item | {"status": {"disruptionsAllowed": "two"}}).encode())
