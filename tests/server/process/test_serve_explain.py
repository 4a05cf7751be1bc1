"""GET and POST /explain on the inspection listener: the remembered decision, and a new one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from flask import Flask

from scheduler_ext.server.explaining import Explaining
from scheduler_ext.server.inspect_routes import explanations_blueprint
from tests.cli.commands import run
from tests.kube_objects import ANNOTATION, SHARE, Json, gpu, gpu_node, inventory, names_body, node, pod
from tests.server.process.product import Product
from tests.server.process.server_process import Reply, call, connect, get, request

pytestmark = pytest.mark.process

WHOLE = "nvidia.com/gpu"
NAMES = ["large", "small", "tainted"]


def objects() -> list[Json]:
    waiting = pod("waiting", {SHARE: "500000"})
    running = pod("running", {WHOLE: "1"}, on="small")
    secret = pod("held", {WHOLE: "1"}, on="large")
    secret["metadata"]["namespace"] = "secret"
    return [
        *(gpu_node("large", [gpu(i) for i in range(2)]), node("large", {WHOLE: "2", SHARE: "140000"})),
        *(gpu_node("small", [gpu(0, total=40960)]), node("small", {WHOLE: "1"})),
        *(gpu_node("tainted", [gpu(i) for i in range(8)]), node("tainted", {WHOLE: "8"})),
        *(waiting, running, secret),
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    path: Path = tmp_path_factory.mktemp("explain") / "inventory.json"
    path.write_bytes(inventory(*objects()))
    with Product(inventory=path) as process:
        yield process.ready()


def decide(server: Product, asking: Json, names: list[str]) -> list[str]:
    passed: list[str] = server.post("filter", names_body(asking, names)).json()["NodeNames"]
    if passed:
        assert server.post("prioritize", names_body(asking, passed)).status == 200
    return passed


def explained(server: Product, name: str, query: str = "") -> Json:
    reply = get(server.inspect, f"/explain?pod={quote(name, safe='')}{query}")
    assert reply.status == 200, reply.body
    answer: Json = reply.json()
    return answer


def sent(server: Product, body: bytes, *headers: str) -> Reply:
    with connect(server.inspect) as sock:
        return call(sock, request("/explain", body, *(headers or ("Content-Type: application/yaml",))))


def by_node(answer: Json) -> dict[str, Any]:
    return {entry["node"]: entry for entry in answer["nodes"]}


def test_the_past_decision_and_the_present_one(server: Product) -> None:
    asking = pod("p", {WHOLE: "1"})
    assert decide(server, asking, ["large", "small"]) == ["large"]
    answer = explained(server, "default/p")
    assert (answer["kind"], answer["fits"], answer["best"]) == ("Explanation", True, ["large"])
    assert (answer["generation"], answer["boundTo"], answer["nearest"]) == (1, None, None)
    recorded = answer["recorded"]
    told = {
        key: recorded[key] for key in ("filters", "generation", "nodesIn", "nodesOut", "reasons", "bound")
    }
    assert told == {
        "filters": 1,
        "generation": 1,
        "nodesIn": 2,
        "nodesOut": 1,
        "reasons": {"Insufficient nvidia.com/gpu per device": 1},
        "bound": None,
    }
    now = by_node(answer)["large"]
    assert recorded["best"]["node"] == "large"
    assert recorded["best"]["total"] == now["total"]
    terms = [{key: term[key] for key in ("name", "weight", "value")} for term in recorded["best"]["terms"]]
    assert terms == now["terms"]


def test_nodes_that_kube_scheduler_did_not_ask_about_are_refused_by_it(server: Product) -> None:
    asking = pod("picky", {WHOLE: "4"})
    asking["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 1 tainted."}
    ]
    assert decide(server, asking, ["large", "small"]) == []
    answer = explained(server, "default/picky")
    tainted = by_node(answer)["tainted"]
    assert (tainted["by"], tainted["reason"]) == (
        "kubernetes",
        "node(s) that kube-scheduler did not pass on to the extender",
    )
    assert answer["kubeScheduler"] == "0/3 nodes are available: 1 tainted."
    assert any("The GPUs of 1 node would do, but kube-scheduler refuses" in each for each in answer["advice"])


def test_a_pod_that_waits_and_was_never_asked_about(server: Product) -> None:
    answer = explained(server, "default/waiting")
    assert (answer["recorded"], answer["fits"]) == (None, False)
    assert answer["nearest"]["text"].endswith("MiB short (needs 500,000, has 81,920)")


def test_a_pod_that_holds_gpus_is_explained_as_if_it_came_again(server: Product) -> None:
    answer = explained(server, "default/running")
    assert (answer["boundTo"], answer["recorded"]) == ("small", None)
    assert by_node(answer)["small"]["verdict"] == "fits"


def test_no_pod_of_another_namespace_is_named(server: Product) -> None:
    asking = pod("crowded", {WHOLE: "2"})
    decide(server, asking, ["large", "small"])
    answer = explained(server, "default/crowded")
    assert answer["nearest"]["text"] == (
        "large has 1 of 2 nvidia.com/gpu free; would fit if a pod of another namespace (priority 0) left"
    )
    assert "secret" not in json.dumps(answer)


@pytest.mark.parametrize("form", [json.dumps, yaml.safe_dump], ids=["as JSON", "as YAML"])
def test_a_manifest_of_a_pod_that_need_not_exist(server: Product, form: Any) -> None:
    asking = {"apiVersion": "v1", "kind": "Pod"} | pod("new", {WHOLE: "8"})
    reply = sent(server, form(asking).encode())
    assert (reply.status, reply.json()["best"], reply.json()["recorded"]) == (200, ["tainted"], None)
    assert get(server.inspect, "/explain?pod=default/new").status == 404


def test_a_pod_of_a_deployment_is_explained_by_its_name(server: Product) -> None:
    template = {"spec": pod("p", {WHOLE: "8"})["spec"]}
    spec = {"replicas": 2, "template": template}
    asking = {"kind": "Deployment", "metadata": {"name": "web", "namespace": "team"}, "spec": spec}
    answer = sent(server, json.dumps(asking).encode(), "Content-Type: application/json").json()
    assert (answer["pod"], answer["best"]) == ({"namespace": "team", "name": "web"}, ["tainted"])
    assert answer["warnings"] == ["a pod from the template of Deployment team/web, which runs 2 in total"]


def test_a_manifest_larger_than_kubectl_applies_is_refused_unread(server: Product) -> None:
    reply = sent(server, b"#" * (256 * 1024 + 1))
    refused = (413, {"error": "the request body is larger than 262144 bytes"})
    assert (reply.status, reply.json()) == refused
    # The whole listener has a limit as well, which this limit hides.
    reply = sent(server, b"#" * (5 * 2**20))
    assert (reply.status, reply.json()) == refused


def test_one_pod_is_explained_at_a_time() -> None:
    """Many at once would take time from decisions."""
    running, most = 0, 0

    class Counting:
        def of_name(self, namespace: str, name: str, nodes: int | None) -> Json:
            nonlocal running, most
            running += 1
            most = max(most, running)
            time.sleep(0.01)
            running -= 1
            return {"nodes": []}

    app = Flask("explain")
    explainer: Any = Counting()
    app.register_blueprint(explanations_blueprint(Explaining(explainer)))
    asked = [Thread(target=lambda: app.test_client().get("/explain?pod=a/b")) for _ in range(4)]
    for thread in asked:
        thread.start()
    for thread in asked:
        thread.join()
    assert most == 1


def test_an_invalid_wish_is_explained_not_refused(server: Product) -> None:
    asking = {"apiVersion": "v1", "kind": "Pod"} | pod("bad", {SHARE: "8Gi"})
    answer = sent(server, json.dumps(asking).encode()).json()
    assert "8192 means 8 GiB" in answer["invalid"]
    assert answer["counts"] == {"pod's GPU request is invalid": 3}


def test_only_so_many_nodes_where_so_many_are_asked_for(server: Product) -> None:
    decide(server, pod("p", {WHOLE: "1"}), NAMES)
    answer = explained(server, "default/p", "&nodes=1")
    assert ([entry["node"] for entry in answer["nodes"]], answer["nodesLeftOut"]) == (["large"], 2)


@pytest.mark.parametrize(
    ("path", "status", "problem"),
    [
        pytest.param("/explain", 400, "pod: ''; ask for ?pod=NAMESPACE/NAME", id="no pod"),
        pytest.param("/explain?pod=p", 400, "pod: 'p'; ask for", id="no namespace"),
        pytest.param(
            "/explain?pod=a/b/c", 400, "pod: 'a/b/c'; ask for ?pod=NAMESPACE/NAME, with one", id="two slashes"
        ),
        pytest.param("/explain?pod=default/nobody", 404, "POST its manifest", id="no pod of that name"),
        pytest.param(
            "/explain?pod=default/waiting&nodes=all",
            400,
            "nodes: 'all'; give a number of nodes to show, 0 to 999999999",
            id="no number",
        ),
        pytest.param(
            "/explain?pod=default/waiting&nodes=99999999999999999999999",
            400,
            "give a number of nodes to show, 0 to 999999999",
            id="a number that is too large",
        ),
        pytest.param("/explain?pod=" + quote("<script>/\u202e", safe=""), 404, "<script>/", id="hostile"),
    ],
)
def test_questions_that_cannot_be_answered(server: Product, path: str, status: int, problem: str) -> None:
    reply = get(server.inspect, path)
    assert reply.status == status
    assert reply.headers["content-type"] == "application/json"
    assert problem in reply.json()["error"]


def asks_more(terms: int = 1, values: int = 1, resources: int = 1, preferred: int = 0) -> bytes:
    """A pod with this much to compare with each node."""
    term = {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["v"] * values}]}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term] * terms},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}] * preferred,
    }
    limits = {f"example.com/r{i}": "1" for i in range(resources)}
    return json.dumps({"kind": "Pod"} | pod("p", limits, affinity={"nodeAffinity": affinity})).encode()


@pytest.mark.parametrize(
    ("most", "more", "problem"),
    [
        pytest.param(
            {"terms": 50}, {"terms": 51}, "terms and requirements: 102; send at most 100", id="terms"
        ),
        pytest.param(
            {"preferred": 49}, {"preferred": 50}, "terms and requirements: 102; send", id="preferred terms"
        ),
        pytest.param({"values": 1000}, {"values": 1001}, "values: 1001; send at most 1000", id="values"),
        pytest.param({"resources": 100}, {"resources": 101}, "resources: 101; send at most", id="resources"),
    ],
)
def test_more_than_any_real_pod_has_is_refused(
    server: Product, most: dict[str, int], more: dict[str, int], problem: str
) -> None:
    assert sent(server, asks_more(**most)).status == 200
    reply = sent(server, asks_more(**more))
    assert (reply.status, problem in reply.json()["error"]) == (400, True), reply.body


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"", "empty", id="nothing"),
        pytest.param(b"kind: [", "neither YAML nor JSON", id="broken YAML"),
        pytest.param(b"kind: Service", "a Service has no pod template with containers", id="a Service"),
        pytest.param(
            b"kind: Pod\nmetadata: {name: a}\n"
            b"spec: {containers: [{name: m, resources: {limits: {nvidia.com/gpu: true}}}]}",
            "Pod default/a: container 'm': nvidia.com/gpu",
            id="a quantity of the wrong type",
        ),
        pytest.param(
            b"kind: Pod\nmetadata: {name: a, namespace: ../x}",
            "metadata.namespace: '../x'; no namespace has a slash",
            id="a path for a namespace",
        ),
        pytest.param(
            b"kind: Pod\nmetadata: {name: b/c, namespace: a}",
            "metadata.name: 'b/c'; no name has a slash",
            id="a path for a name",
        ),
        pytest.param(
            b"kind: Pod\nmetadata: {name: a, namespace: 5}",
            "metadata.namespace",
            id="a number for a namespace",
        ),
        pytest.param(
            b"kind: Pod\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: b}", "2 pods in it", id="two"
        ),
        pytest.param(
            b"kind: Pod\nmetadata: {name: a}\n"
            b"spec: {containers: [{name: m, resources: {limits: {cpu: lots}}}]}",
            "cpu: quantity",
            id="CPU",
        ),
    ],
)
def test_manifests_that_cannot_be_read(server: Product, body: bytes, problem: str) -> None:
    reply = sent(server, body)
    assert reply.status == 400, reply.body
    assert problem in reply.json()["error"]


def test_a_snapshot_is_replayed_by_the_command_line_with_the_same_answer(
    server: Product, tmp_path: Path
) -> None:
    decide(server, pod("q", {WHOLE: "4"}), ["large", "small"])
    reply = get(server.inspect, "/debug/snapshot")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/gzip")
    file = tmp_path / "snapshot.json.gz"
    file.write_bytes(reply.body)
    for name in ("default/q", "default/waiting", "default/running"):
        told = run("replay", file, "--pod", name, "-o", "json")
        answer = explained(server, name)
        assert (told.exit_code, json.loads(told.stdout)) == (0 if answer["fits"] else 3, answer)
    written = tmp_path / "pod.json"
    written.write_text(json.dumps({"kind": "Pod"} | pod("new", {WHOLE: "8"})))
    told = run("replay", file, "-f", written)
    assert (told.exit_code, "Fits; best: tainted" in told.stdout) == (0, True)
    template = {"spec": pod("new", {WHOLE: "8"})["spec"]}
    written.write_text(json.dumps({"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}))
    told = run("replay", file, "-f", written)
    assert told.stdout.startswith(
        "Pod default/j asks nvidia.com/gpu=8\nNote: a pod from the template of Job j"
    )


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        pytest.param([], 2, "nothing to explain: give one of --pod, -f", id="no pod"),
        pytest.param(["--pod", "a/b", "-f", "-"], 2, "--pod and -f are too many", id="two pods"),
        pytest.param(["--pod", "b"], 2, "'b' is no NAMESPACE/NAME", id="no namespace"),
        pytest.param(["--pod", "default/nobody"], 1, "no pod of this name", id="no pod of that name"),
    ],
)
def test_replays_that_cannot_be(
    server: Product, tmp_path: Path, options: list[str], code: int, problem: str
) -> None:
    file = tmp_path / "snapshot"
    file.write_bytes(get(server.inspect, "/debug/snapshot").body)
    told = run("replay", file, *options)
    assert (told.exit_code, problem in told.stderr) == (code, True)


def test_a_file_to_replay_that_is_not_there_is_named(tmp_path: Path) -> None:
    told = run("replay", tmp_path / "gone", "--pod", "a/b")
    assert (told.exit_code, f"{tmp_path}/gone: No such file" in told.stderr) == (1, True)


def test_a_wish_by_annotation_is_kept_in_the_record(server: Product) -> None:
    asking = pod(
        "wishes", {WHOLE: "1"}, annotations={ANNOTATION + "model": "H100", ANNOTATION + "modle": "x"}
    )
    decide(server, asking, NAMES)
    answer = explained(server, "default/wishes")
    assert answer["advice"] == [
        "No node has a GPU of model H100; did you mean A100?",
        "With gpu.scheduler-ext.io/model: A100-80GB instead of H100 it would fit on 2 nodes now",
    ]
    assert answer["warnings"] == [
        "annotation gpu.scheduler-ext.io/modle: unknown, does nothing; did you mean "
        "gpu.scheduler-ext.io/model?"
    ]
