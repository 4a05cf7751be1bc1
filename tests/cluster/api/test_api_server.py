"""What other tests would not miss if the API server of the tests did it wrong: its rules for writes, its
selections, its versions, and its faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import urllib3

from tests.cluster.api.api_client import Client
from tests.cluster.api.api_faults import After, Garbage, Mute, Refuse, Reset
from tests.cluster.api.api_paths import BUDGETS, GPU_NODES, GPU_RESERVATIONS, NODES, PODS
from tests.cluster.api.api_requests import Request, lists
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, gpu, node, pod

MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running


@pytest.fixture
def client(server: ApiServer) -> Iterator[Client]:
    asking = Client(server.url)
    yield asking
    asking.close()


def names(found: Json) -> list[str]:
    return [item["metadata"]["name"] for item in found["items"]]


def version(found: Json) -> str:
    said = found["metadata"]["resourceVersion"]
    assert isinstance(said, str)
    return said


def test_pages_are_of_one_version_though_objects_change_meanwhile(server: ApiServer, client: Client) -> None:
    server.store.put_all(PODS, [pod(f"p{number}") for number in range(5)])
    first = client.list(PODS, limit="2")
    assert first["metadata"]["remainingItemCount"] == 3
    server.store.delete(PODS, "p3", "default")
    server.store.put(PODS, pod("p2", on="elsewhere"))
    server.store.put(PODS, pod("p25"))
    second = client.list(PODS, limit="2", **{"continue": first["metadata"]["continue"]})
    third = client.list(PODS, limit="2", **{"continue": second["metadata"]["continue"]})
    assert [names(page) for page in (first, second, third)] == [["p0", "p1"], ["p2", "p3"], ["p4"]]
    assert {version(page) for page in (first, second, third)} == {version(first)}
    assert second["items"][0]["spec"]["nodeName"] is None
    assert "continue" not in third["metadata"]
    assert names(client.list(PODS)) == ["p0", "p1", "p2", "p25", "p4"]
    # A real server answers from its cache without pages.
    assert len(names(client.list(PODS, limit="2", resourceVersion="0"))) == 5


@pytest.mark.parametrize(
    ("path", "selector", "left"),
    [
        pytest.param(PODS, "status.phase!=Succeeded,status.phase!=Failed", ["here", "new"], id="unfinished"),
        pytest.param(PODS, "spec.nodeName=n", ["done", "here"], id="of a node"),
        pytest.param("/api/v1/namespaces/default/pods", "", ["done", "here", "new"], id="of a namespace"),
    ],
)
def test_a_selection_is_listed(
    server: ApiServer, client: Client, path: str, selector: str, left: list[str]
) -> None:
    server.store.put_all(PODS, [pod("new"), pod("here", on="n"), pod("done", on="n", phase="Succeeded")])
    assert names(client.list(path, fieldSelector=selector, limit="2")) == left[:2]
    assert names(client.list(path, fieldSelector=selector)) == left


def test_a_pod_is_evicted_unless_a_budget_holds_it(server: ApiServer, client: Client) -> None:
    held = pod("held", on="n")
    held["metadata"]["labels"] = {"app": "x"}
    server.store.put_all(PODS, [pod("free", on="n"), held])
    selector = {"selector": {"matchLabels": {"app": "x"}}}
    budget = {"metadata": {"name": "x"}, "spec": selector, "status": {"disruptionsAllowed": 0}}
    server.store.put(BUDGETS, budget | {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"})

    def evict(name: str, **preconditions: str) -> int:
        body = {"metadata": {"name": name}, "deleteOptions": {"preconditions": preconditions}}
        return client.ask("POST", f"/api/v1/namespaces/default/pods/{name}/eviction", body).status

    assert evict("held") == 429
    assert evict("free", uid="another") == 409
    assert evict("free", uid="uid-free") == 201
    leaving = {
        each.name: "deletionTimestamp" in each.object()["metadata"]
        for each in server.store.collection(PODS).current()
    }
    assert leaving == {"free": True, "held": False}


def test_an_object_that_leaves_the_selection_is_deleted_for_its_watch(
    server: ApiServer, client: Client
) -> None:
    server.store.put(PODS, pod("p", on="n"))
    selector = "status.phase!=Succeeded,status.phase!=Failed"
    with client.watch(PODS, fieldSelector=selector, resourceVersion=str(server.store.version)) as lines:
        finished = server.store.put(PODS, pod("p", on="n", phase="Succeeded"))
        left = lines.event()
        assert (left["type"], left["object"]["status"]["phase"]) == ("DELETED", "Running")
        assert version(left["object"]) == str(finished.version)
        server.store.delete(PODS, "p", "default")
        server.store.put(PODS, pod("q"))
        assert lines.short() == ["ADDED q"]


def test_a_watch_from_before_a_compaction_gets_410(server: ApiServer, client: Client) -> None:
    server.store.put(NODES, node("a"))
    server.store.compact()
    with client.watch(NODES, resourceVersion="1") as lines:
        assert (lines.status, lines.short()) == (200, ["ERROR 410"])
        with pytest.raises(EOFError):
            lines.raw()
    server.gone_at_once = True
    refused = client.ask("GET", NODES, watch="1", resourceVersion="1")
    assert (refused.status, refused.json()["reason"]) == (410, "Expired")
    with client.watch(NODES, resourceVersion=str(server.store.version)) as lines:
        server.store.compact()
        server.store.put(NODES, node("b"))
        assert lines.short() == ["ADDED b"]


@pytest.mark.parametrize(
    ("method", "body", "code"),
    [
        pytest.param("PUT", {"metadata": {"name": "n1"}}, 422, id="replaced without a version"),
        pytest.param("PUT", {"metadata": {"name": "n1", "resourceVersion": "1"}}, 409, id="at an old one"),
        pytest.param(
            "PUT", {"metadata": {"resourceVersion": "2", "uid": "x"}}, 409, id="another of the name"
        ),
        pytest.param("PUT", {"metadata": {"resourceVersion": "2"}, "spec": {"a": 2}}, 200, id="at its own"),
        pytest.param("PATCH", {"metadata": {"resourceVersion": "1"}}, 409, id="patched at an old version"),
        pytest.param("PATCH", {"metadata": {"resourceVersion": "2"}}, 200, id="patched at its own"),
        pytest.param("DELETE", {"preconditions": {"resourceVersion": "1"}}, 409, id="deleted at an old one"),
        pytest.param("DELETE", {"preconditions": {"uid": "x"}}, 409, id="deleted as another of the name"),
        pytest.param("DELETE", {"preconditions": {"resourceVersion": "2"}}, 200, id="deleted at its own"),
    ],
)
def test_a_write_at_an_old_version_is_refused(
    server: ApiServer, client: Client, method: str, body: Json, code: int
) -> None:
    server.store.put(GPU_RESERVATIONS, {"metadata": {"name": "n1"}, "spec": {"a": 1}})
    headers = MERGE if method == "PATCH" else None
    assert client.ask(method, f"{GPU_RESERVATIONS}/n1", body, headers).status == code


def test_an_applied_status_replaces_what_the_same_manager_applied(server: ApiServer, client: Client) -> None:
    wanted = {"apiVersion": "gpu.scheduler-ext.io/v1alpha1", "kind": "GPUNode", "metadata": {"name": "n"}}
    status = {"devices": [gpu(0)], "cudaVersion": "12.8"}

    def apply(path: str, **more: object) -> tuple[int, Json]:
        answer = client.ask("PATCH", f"{GPU_NODES}/n{path}", wanted | more, APPLY, fieldManager="agent")
        return answer.status, answer.json()

    assert client.ask("PATCH", f"{GPU_NODES}/n", wanted, APPLY).status == 422
    assert apply("/status", status=status)[0] == 404
    code, made = apply("", status=status)
    assert (code, "status" in made) == (201, False)
    code, first = apply("/status", status=status)
    assert (code, first["status"]) == (200, status)
    (entry,) = [e for e in first["metadata"]["managedFields"] if e.get("subresource") == "status"]
    assert (entry["manager"], entry["operation"]) == ("agent", "Apply")
    before = server.store.version
    assert apply("/status", status=status) == (200, first)
    assert server.store.version == before
    _, second = apply("/status", status={"devices": []})
    assert second["status"] == {"devices": []}


# Its faults


def test_a_fault_meets_so_many_requests_that_match(server: ApiServer, client: Client) -> None:
    placed = server.faults.place(Refuse(429, "TooManyRequests", retry_after_s=3), lists(NODES), times=2)
    assert client.ask("GET", PODS).status == 200
    refused = client.ask("GET", NODES)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "3")
    assert refused.json()["reason"] == "TooManyRequests"
    assert [client.ask("GET", NODES).status for _ in range(2)] == [429, 200]
    assert placed.hits == 2


@pytest.mark.parametrize(
    "fault", [pytest.param(Reset(), id="a reset"), pytest.param(Garbage(), id="bytes that are no HTTP")]
)
def test_a_call_is_done_though_its_answer_is_lost(
    server: ApiServer, client: Client, fault: Reset | Garbage
) -> None:
    server.store.put_all(NODES, [node("n1"), node("n2")])
    server.faults.place(After(fault))
    with pytest.raises(urllib3.exceptions.HTTPError):
        client.ask("DELETE", f"{NODES}/n1")
    assert client.ask("DELETE", f"{NODES}/n1").status == 404
    server.faults.place(After(Refuse(500)))
    assert client.ask("DELETE", f"{NODES}/n2").status == 500
    assert client.ask("DELETE", f"{NODES}/n2").status == 404


def test_a_mute_watch_stays_and_sends_nothing_not_even_its_end(server: ApiServer, client: Client) -> None:
    def is_mute(request: Request) -> bool:
        return request.query.get("which") == "mute"

    placed = server.faults.place(Mute(), is_mute)
    asked = {"resourceVersion": str(server.store.version), "timeoutSeconds": "0.01"}
    with client.watch(NODES, which="mute", **asked) as mute:
        server.store.put(NODES, node("new"))
        # Another watch of the same kind receives the event, and ends.
        with client.watch(NODES, timeoutSeconds="0.01", resourceVersion="0") as other:
            assert other.short() == ["ADDED new"]
            with pytest.raises(EOFError):
                other.raw()
        assert server.watching(is_mute) == 1
        placed.lift()
        # An earlier line would come first.
        with pytest.raises(EOFError):
            mute.raw()
