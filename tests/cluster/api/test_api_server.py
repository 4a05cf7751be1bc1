"""The API server of the tests: it lists, watches, forgets and writes as a Kubernetes API does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.api.api_client import Client
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import BUDGETS, GPU_NODES, GPU_RESERVATIONS, LEASES, NODES, PODS
from tests.cluster.api.api_requests import first_pages, lists, watches, writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.api.api_status import ApiError
from tests.kube_objects import Json, gpu, gpu_node, node, pod

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
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


def test_a_list_has_the_objects_of_a_collection_and_the_version_it_is_of(
    server: ApiServer, client: Client
) -> None:
    server.store.put(NODES, node("b"))
    server.store.put(NODES, node("a"))
    server.store.put(GPU_NODES, gpu_node("a", [gpu(0)]))
    found = client.list(NODES)
    assert (found["kind"], found["apiVersion"], names(found)) == ("NodeList", "v1", ["a", "b"])
    assert version(found) == str(server.store.version)
    # As in a real list: the items of built-in types have no kind, those of others have one.
    assert "kind" not in found["items"][0]
    assert found["items"][0]["status"]["allocatable"]["cpu"] == "64"
    assert client.list(GPU_NODES)["items"][0]["kind"] == "GPUNode"
    assert client.list("/apis/example.com/v1/things")["items"] == []
    # And the last page of those has an empty token.
    assert "continue" not in found["metadata"]
    assert client.list(GPU_NODES)["metadata"]["continue"] == ""


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


def test_a_page_of_a_forgotten_list_is_refused(server: ApiServer, client: Client) -> None:
    server.store.put_all(NODES, [node("a"), node("b")])
    token = client.list(NODES, limit="1")["metadata"]["continue"]
    server.store.compact(NODES)
    refused = client.ask("GET", NODES, limit="1", **{"continue": token})
    assert (refused.status, refused.json()["reason"]) == (410, "Expired")
    assert client.ask("GET", NODES, limit="1", **{"continue": "!"}).status == 400


@pytest.mark.parametrize(
    ("path", "selector", "left"),
    [
        pytest.param(PODS, "metadata.name=done", ["done"], id="by name"),
        pytest.param(PODS, "status.phase!=Succeeded,status.phase!=Failed", ["here", "new"], id="unfinished"),
        pytest.param(PODS, "spec.nodeName=n", ["done", "here"], id="of a node"),
        pytest.param(PODS, "spec.nodeName!=,status.phase==Running", ["here"], id="bound and running"),
        pytest.param("/api/v1/namespaces/default/pods", "", ["done", "here", "new"], id="of a namespace"),
        pytest.param("/api/v1/namespaces/other/pods", "", [], id="of another namespace"),
    ],
)
def test_a_selection_is_listed(
    server: ApiServer, client: Client, path: str, selector: str, left: list[str]
) -> None:
    server.store.put_all(PODS, [pod("new"), pod("here", on="n"), pod("done", on="n", phase="Succeeded")])
    assert names(client.list(path, fieldSelector=selector, limit="2")) == left[:2]
    assert names(client.list(path, fieldSelector=selector)) == left


def test_a_selector_that_would_be_ignored_is_refused(client: Client) -> None:
    assert client.ask("GET", PODS, fieldSelector="spec.color=red").status == 400
    assert client.ask("GET", PODS, labelSelector="a=b").status == 400


def test_objects_with_a_label_are_listed(server: ApiServer, client: Client) -> None:
    server.store.put_all(NODES, [node("a", labels={"x/y": "1"}), node("b", labels={"z": "1"})])
    assert names(client.list(NODES, labelSelector="x/y")) == ["a"]


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


def test_a_list_of_the_future_is_refused(client: Client) -> None:
    refused = client.ask("GET", NODES, resourceVersion="999")
    assert (refused.status, refused.headers["Retry-After"]) == (504, "1")
    assert refused.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_a_watch_goes_on_where_a_list_or_another_watch_ended(server: ApiServer, client: Client) -> None:
    server.store.put(NODES, node("a"))
    since = version(client.list(NODES))
    server.store.put(NODES, node("b"))
    with client.watch(NODES, resourceVersion=since) as lines:
        added = lines.event()
        assert (added["type"], added["object"]["metadata"]["name"]) == ("ADDED", "b")
        assert added["object"]["kind"] == "Node"
        server.store.put(NODES, node("a", {"cpu": "1"}))
        server.store.delete(NODES, "b")
        assert lines.short(2) == ["MODIFIED a", "DELETED b"]
    server.store.put(PODS, pod("of no interest"))
    with client.watch(NODES, resourceVersion=added["object"]["metadata"]["resourceVersion"]) as lines:
        changed, deleted = lines.event(), lines.event()
        assert changed["object"]["status"]["allocatable"]["cpu"] == "1"
        assert int(version(deleted["object"])) == int(version(changed["object"])) + 1


def test_a_watch_without_a_version_begins_with_the_existing_objects(
    server: ApiServer, client: Client
) -> None:
    server.store.put_all(NODES, [node("a"), node("b")])
    with client.watch(NODES) as lines:
        assert lines.short(2) == ["ADDED a", "ADDED b"]
        server.store.put(NODES, node("c"))
        assert lines.short() == ["ADDED c"]


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


def test_a_watch_ends_after_its_time(client: Client) -> None:
    with client.watch(NODES, resourceVersion="1", timeoutSeconds="0.01") as lines, pytest.raises(EOFError):
        lines.raw()


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


def test_a_collection_in_which_nothing_happened_is_watched_from_any_version(
    server: ApiServer, client: Client
) -> None:
    server.store.put_all(NODES, [node("a"), node("b")])
    with client.watch(PODS, resourceVersion="1") as lines:
        server.store.put(PODS, pod("p"))
        assert lines.short() == ["ADDED p"]
    server.store.compact()
    with client.watch(LEASES, resourceVersion="1") as lines:
        assert lines.short() == ["ERROR 410"]


def test_history_is_bounded() -> None:
    server = ApiServer(history=2)
    for number in range(6):
        server.store.put(NODES, node(f"n{number}"))
    collection = server.store.collection(NODES)
    assert collection.end() == 6
    with server.store.lock, pytest.raises(ApiError, match="too old resource version: 2"):
        collection.position(2)


def test_bookmarks_come_to_those_who_asked(server: ApiServer, client: Client) -> None:
    since = str(server.store.version)
    with (
        client.watch(PODS, resourceVersion=since, allowWatchBookmarks="true") as told,
        client.watch(PODS, resourceVersion=since) as untold,
    ):
        server.wait_for_watches(2, watches(PODS))
        server.store.put(NODES, node("a"))
        server.store.bookmark()
        seen = told.event()
        assert (seen["type"], version(seen["object"])) == ("BOOKMARK", str(server.store.version))
        assert seen["object"]["kind"] == "Pod"
        server.store.put(PODS, pod("p"))
        assert (told.short(), untold.short()) == (["ADDED p"], ["ADDED p"])
    server.wait_for_watches(0)


def test_requests_are_written_down(server: ApiServer, client: Client) -> None:
    server.clock = lambda: 1_800_000_000.5
    answer = client.ask("GET", NODES, None, {"X-Test": "yes"}, limit="1")
    assert answer.headers["Date"] == "Fri, 15 Jan 2027 08:00:00 GMT"
    client.ask("GET", NODES, limit="1", **{"continue": "!"})
    client.ask("PATCH", f"{NODES}/a/status", {"status": {}}, MERGE)
    request, _ = server.log.wait_for(lists(NODES), 2)
    assert (request.query, request.headers["x-test"], request.at) == ({"limit": "1"}, "yes", 1_800_000_000.5)
    assert server.log.count(first_pages()) == 1
    assert [found.json() for found in server.log.all(writes(NODES, "PATCH"))] == [{"status": {}}]
    with pytest.raises(TimeoutError, match="0 of 1 requests"):
        server.log.wait_for(watches(), timeout_s=0.01)


def test_objects_are_created_replaced_merged_and_deleted(server: ApiServer, client: Client) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    created = client.ask("POST", LEASE, body)
    assert (created.status, created.json()["metadata"]["namespace"]) == (201, "kube-system")
    assert (created.json()["kind"], client.ask("POST", LEASE, body).status) == ("Lease", 409)
    later = created.json() | {"spec": {"holderIdentity": "b"}}
    assert client.ask("PUT", f"{LEASE}/l", later).status == 200
    assert client.ask("PUT", f"{LEASE}/l", later).json()["reason"] == "Conflict"
    merged = client.ask(
        "PATCH", f"{LEASE}/l", {"spec": {"holderIdentity": None, "leaseTransitions": 1}}, MERGE
    )
    assert merged.json()["spec"] == {"leaseTransitions": 1}
    assert merged.json()["metadata"]["uid"] == created.json()["metadata"]["uid"]
    assert names(client.list(LEASES)) == names(client.list(LEASE)) == ["l"]
    assert client.ask("GET", f"{LEASE}/l").json() == merged.json()
    assert client.ask("DELETE", f"{LEASE}/l").status == 200
    assert client.ask("GET", f"{LEASE}/l").status == 404
    assert client.ask("PATCH", f"{LEASE}/l", {}, {"Content-Type": "text/plain"}).status == 415


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


def test_a_hook_may_answer_instead(server: ApiServer, client: Client) -> None:
    server.hook = lambda request: Answer(418, b"tea") if request.path == "/version" else None
    assert client.ask("GET", "/version").data == b"tea"
    assert client.list(NODES)["items"] == []
    assert client.ask("GET", "/nothing").status == 404


def test_a_server_with_tokens_wants_one_of_them(server: ApiServer, client: Client, tmp_path: Path) -> None:
    server.tokens = {"secret"}
    assert client.ask("GET", NODES).status == 401
    assert client.ask("GET", NODES, None, {"Authorization": "Bearer secret"}).status == 200
    config = yaml.safe_load(server.kubeconfig(tmp_path / "config", token="secret").read_text())
    assert config["clusters"][0]["cluster"]["server"] == server.url
    assert config["users"][0]["user"] == {"token": "secret"}
    config = yaml.safe_load(server.kubeconfig(tmp_path / "config", token_file=tmp_path / "t").read_text())
    assert config["users"][0]["user"] == {"tokenFile": str(tmp_path / "t")}
