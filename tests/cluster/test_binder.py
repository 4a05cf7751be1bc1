"""Binds by several threads at once, against an API server that is slow, silent or wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from scheduler_ext.binding import binder as binder_module
from scheduler_ext.binding.binder import Binder
from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.binding_calls import Bindings
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.gpu.gpu import Memory, Report
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.binding import read_pod
from scheduler_ext.wire.config import Configuration, MemorySection
from scheduler_ext.wire.pod.cached_pod import pending_pod
from tests.cluster.api.api_faults import After, Hang, Refuse, Reset
from tests.cluster.api.api_paths import GPU_RESERVATIONS, PODS
from tests.cluster.api.api_requests import Match, Request, writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.core.asked import t4
from tests.core.reported import NAMES
from tests.kube_objects import SHARE, Json, pod

ROOM_MIB = 1000
RESERVATIONS: Match = writes(GPU_RESERVATIONS)


def posts_binding(request: Request) -> bool:
    """A Binding."""
    return request.method == "POST" and request.path.endswith("/binding")


def reads_pod(request: Request) -> bool:
    """A GET of one pod."""
    return request.method == "GET" and "/namespaces/default/pods/" in request.path


class Extending:
    """An extender with one GPU on node a, and its calls."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.server = server
        extender = Extender(Configuration(memory=MemorySection(headroom_percent=0)))
        self.locked = LockedCache(Cache(1000.0, 2000.0), extender, "me")
        self.locked.cache.update_node("a", NodeRecord("uid-a", {SHARE: ROOM_MIB}), 0.0)
        now = time.monotonic()
        self.locked.cache.update_report("a", Report((t4(memory=Memory(ROOM_MIB)),)), now, now)
        self.binder = Binder(self.locked, Bindings(transport), NAMES, ("ours",), lambda: None, 60.0)
        self.pool = ThreadPoolExecutor(8)

    def waits(self, name: str, mib: int = 600) -> None:
        """A pod is created and known."""
        self.server.store.put(PODS, pod(name, {SHARE: str(mib)}, schedulerName="ours"))
        self.hears(name)

    def bind(self, name: str) -> str:
        """The error; none when it is bound."""
        args = {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}", "Node": "a"}
        answer = self.binder.bind(json.dumps(args).encode(), time.monotonic() + self.binder.deadline_s)
        error: str = json.loads(answer.body)["Error"]
        assert (answer.nodes_in, answer.nodes_out) == (1, int(not error))
        return error

    def there(self, name: str) -> Json:
        """The pod on the API server."""
        return self.server.store.get(PODS, name, "default").object()

    def changes(self, name: str) -> None:
        """Another client writes the pod."""
        change = {"status": {"message": "failed"}}
        self.server.store.update(PODS, name, lambda before: before | change, "default")

    def hears(self, name: str) -> None:
        """The watch delivers the pod."""
        found = read_pod(json.dumps(self.there(name)).encode())
        with self.locked:
            self.locked.cache.update_pending(pending_pod(found, NAMES))

    def held(self) -> set[str]:
        """The certain and possible holders."""
        with self.locked:
            info = self.locked.cache.info("a")
        return {held.name for held in info.pods} if info is not None else set()


@pytest.fixture
def extending(server: ApiServer, transport: Transport) -> Iterator[Extending]:
    built = Extending(server, transport)
    yield built
    server.faults.lift()
    built.binder.stop()
    built.pool.shutdown()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open binds are checked at once."""
    monkeypatch.setattr(binder_module, "_FIRST_LOOK_S", 0.05)
    monkeypatch.setattr(binder_module, "_TICK_S", 0.02)


def test_a_bind_is_two_writes_and_the_first_on_a_node_two_reads_more(
    server: ApiServer, extending: Extending
) -> None:
    extending.waits("one", 300)
    extending.waits("two", 300)
    assert extending.bind("one") == ""
    asked = [(request.method, request.path.rpartition("/")[2]) for request in server.log.all()]
    assert asked == [("GET", "a"), ("GET", "pods"), ("POST", "gpureservations"), ("POST", "binding")]
    server.log.clear()
    assert extending.bind("two") == ""
    asked = [(request.method, request.path.rpartition("/")[2]) for request in server.log.all()]
    assert asked == [("PUT", "a"), ("POST", "binding")]
    assert extending.there("two")["spec"]["nodeName"] == "a"
    told = extending.there("one")["metadata"]["annotations"]
    assert told["devices.gpu.scheduler-ext.io/main"] == "GPU-0"
    assert json.loads(told["gpu.scheduler-ext.io/assigned"])["node"] == "a"
    assert +extending.binder.results == {"bound": 2}


def test_all_that_wait_for_their_turn_are_written_at_once(server: ApiServer, extending: Extending) -> None:
    names = [f"pod-{i}" for i in range(8)]
    extending.waits("one", 100)
    assert extending.bind("one") == ""
    for name in names:
        extending.waits(name, 100)
    held = server.faults.place(Hang(), RESERVATIONS)
    futures = [extending.pool.submit(extending.bind, name) for name in names]
    eventually(lambda: len(extending.held()) == 9)
    held.lift()
    assert [future.result() for future in futures] == [""] * 8
    # The first of all, the delayed one, and one for the rest.
    assert server.log.count(RESERVATIONS) <= 3


@pytest.mark.parametrize("call", ["get_reservation", "put_reservation", "post_binding"])
def test_a_fault_of_our_own_keeps_no_place_but_where_the_binding_was_posted(
    server: ApiServer, extending: Extending, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fault(*_: object) -> None:
        raise RuntimeError("a bug")

    extending.waits("one")
    monkeypatch.setattr(extending.binder._api, call, fault)
    assert extending.bind("one") != ""
    assert extending.held() == ({"one"} if call == "post_binding" else set())
    monkeypatch.undo()
    assert extending.bind("one") == ""


def test_where_the_pod_changes_open_binds_are_checked_at_once(
    server: ApiServer, extending: Extending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binder_module, "_FIRST_LOOK_S", 1e9)
    monkeypatch.setattr(binder_module, "_TICK_S", 0.02)
    extending.waits("one")
    server.faults.place(Reset(), posts_binding)
    assert "is not known yet" in extending.bind("one")
    extending.binder.start()
    looks = server.log.count(reads_pod)
    extending.changes("one")
    extending.hears("one")
    eventually(lambda: extending.held() == set())
    assert server.log.count(reads_pod) == looks + 1


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
def test_an_answer_that_does_not_come_is_found_out(
    server: ApiServer, extending: Extending, soon: None, done: bool
) -> None:
    extending.waits("one")
    extending.waits("two")
    server.faults.place(After(Reset()) if done else Reset(), posts_binding)
    unreadable = server.faults.place(Refuse(500), reads_pod, None)
    error = extending.bind("one")
    assert "whether pod default/one was bound to node a is not known yet" in error
    assert extending.held() == {"one"}
    assert "no longer fits" in extending.bind("two")
    extending.binder.start()
    unreadable.lift()
    if done:
        eventually(lambda: extending.locked.cache.assumed() == [])
        assert extending.locked.cache.node_of("uid-one") == "a"
        return
    # At the same version it may still succeed; after kube-scheduler writes the pod's condition it cannot.
    extending.changes("one")
    eventually(lambda: extending.locked.cache.assumed() == [])
    assert extending.held() == set()
    assert extending.bind("two") == ""


def test_after_an_outage_open_binds_are_checked_soon(
    server: ApiServer, extending: Extending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the last checks failed."""
    monkeypatch.setattr(binder_module, "_FIRST_LOOK_S", 1e9)
    monkeypatch.setattr(binder_module, "_TICK_S", 0.02)
    extending.waits("one")
    server.faults.place(After(Reset()), posts_binding)
    unreadable = server.faults.place(Refuse(500), reads_pod, None)
    assert "is not known yet" in extending.bind("one")
    unreadable.lift()
    extending.binder.start()
    assert extending.locked.cache.assumed() != []
    monkeypatch.setattr(binder_module, "_FIRST_LOOK_S", 0.0)
    extending.binder.look_again()
    eventually(lambda: extending.locked.cache.assumed() == [])
    assert extending.locked.cache.node_of("uid-one") == "a"


def test_a_pod_that_changed_unseen_is_tried_once_more(server: ApiServer, extending: Extending) -> None:
    extending.waits("one")
    extending.changes("one")
    assert extending.bind("one") == ""
    assert +extending.binder.conflicts == {"pod": 1}
    assert server.log.count(posts_binding) == 2


def test_beside_a_pod_that_cannot_be_read_nothing_is_bound(server: ApiServer, extending: Extending) -> None:
    broken = pod("broken", on="a")
    broken["spec"]["containers"][0] |= {"resources": {"limits": {SHARE: {}}}}
    server.store.put(PODS, broken)
    extending.waits("one", 300)
    assert "the pods of node a were not listed" in extending.bind("one")
    assert extending.held() == set()
    server.store.delete(PODS, "broken", "default")
    assert extending.bind("one") == ""
