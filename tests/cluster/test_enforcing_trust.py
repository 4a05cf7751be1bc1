"""When a binding extender refuses to bind: its data is too old, or it has just become active."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.enforcing import Enforcing
from scheduler_ext.core.cache.intent import Intent, Reservation
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.wire.reservation import reservation_body
from tests.cluster.api.api_faults import End, Hang, Placed, Refuse
from tests.cluster.api.api_paths import GPU_RESERVATIONS, LEASES, NODES, PODS
from tests.cluster.api.api_requests import Request, first_pages, lists, watches, writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.enforced import Enforced
from tests.cluster.following import eventually
from tests.core.asked import share
from tests.kube_objects import SHARE, node

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.fixture
def enforced(server: ApiServer, transport: Transport) -> Iterator[Enforced]:
    built = Enforced(server, transport)
    yield built
    server.faults.lift()
    built.live.stop()


def why_not(enforced: Enforced) -> str:
    assert isinstance(enforced.live.enforcing, Enforcing)
    return enforced.live.enforcing.why_not() or ""


def active(enforced: Enforced) -> None:
    """Start it as the active one."""
    enforced.held_by("me_1")
    enforced.start()
    eventually(lambda: not why_not(enforced))
    enforced.server.wait_for_watches(len(enforced.live.status().watches))


def test_no_share_is_bound_on_a_node_without_the_label(enforced: Enforced) -> None:
    """Whatever amount it advertises, which may be another component's."""
    enforced.server.store.put(NODES, node("a", {SHARE: "80000"}))
    active(enforced)
    asking = enforced.share("p")
    assert enforced.fitting(asking) == "b"
    assert "no longer fits on node a" in enforced.ask_bind("p", "a")
    assert enforced.ask_bind("p", "b") == ""


def lose(enforced: Enforced, path: str) -> Placed:
    """No event of a collection arrives any more."""

    def asked(request: Request) -> bool:
        return lists(path)(request) or watches(path)(request)

    refusal = enforced.server.faults.place(Refuse(503), asked, times=None)
    enforced.server.faults.place(End(), watches(path))
    enforced.server.log.wait_for(asked)
    eventually(lambda: any(not watch.connected for watch in enforced.live.status().watches))
    return refusal


@pytest.mark.parametrize(
    ("path", "name"),
    [(PODS, "pods"), (GPU_RESERVATIONS, "gpureservations"), (LEASES, "leases")],
)
def test_nothing_is_bound_while_a_watch_is_lost_for_too_long(
    enforced: Enforced, path: str, name: str
) -> None:
    active(enforced)
    enforced.share("p")
    eventually(lambda: enforced.live.locked.cache.pending("uid-p") is not None)
    refusal = lose(enforced, path)
    # A watch that is lost for a moment does not matter.
    assert why_not(enforced) == ""
    enforced.live._oldest_s = 0.2
    eventually(lambda: f"the watch of {name} has been lost for" in why_not(enforced))
    assert f"p was not bound: the watch of {name} has been lost for" in enforced.ask_bind("p", "a")
    assert enforced.live.binder is not None
    assert +enforced.live.binder.results == {"standby": 1}
    refusal.lift()
    enforced.live._oldest_s = 60.0
    eventually(lambda: enforced.ask_bind("p", "a") == "")


@pytest.mark.parametrize("path", [PODS, GPU_RESERVATIONS])
def test_a_new_leader_waits_for_the_list(enforced: Enforced, path: str) -> None:
    enforced.held_by("other_1")
    enforced.start()
    enforced.share("p")
    eventually(lambda: enforced.live.locked.cache.pending("uid-p") is not None)
    held_back = enforced.server.faults.place(Hang(), first_pages(path), times=None)
    enforced.server.log.clear()
    enforced.held_by("me_1")
    enforced.server.log.wait_for(first_pages(path))
    eventually(enforced.live.active)
    assert "has just become active and lists pods again" in enforced.ask_bind("p", "a")
    assert enforced.server.log.count(writes(PODS)) == 0
    held_back.lift()
    eventually(lambda: enforced.ask_bind("p", "a") == "")


def test_a_returning_leader_reads_the_writes_of_the_other(enforced: Enforced) -> None:
    active(enforced)
    enforced.share("first", 1000)
    eventually(lambda: enforced.ask_bind("first", "a") == "")
    enforced.held_by("other_1")
    eventually(lambda: not enforced.live.active())
    # The other is about to bind two pods to the node of this extender's last write.
    intents = []
    for i in range(2):
        asking = enforced.share(f"theirs-{i}", 70_000)
        version = str(enforced.server.store.version)
        gpu = {"c0": (f"GPU-a{i}",)}
        pod = BoundPod(asking["metadata"]["uid"], "default", f"theirs-{i}", 0, share(70_000), gpu)
        intents.append(Intent(pod, version, "other"))
    there = enforced.server.store.get(GPU_RESERVATIONS, "a").object()
    version = there["metadata"]["resourceVersion"]
    body = reservation_body(Reservation("a", "node-uid", version, tuple(intents), "stamp"))
    enforced.server.store.put(GPU_RESERVATIONS, body)
    enforced.held_by("me_2")
    eventually(lambda: not why_not(enforced))
    asking = enforced.share("q")
    eventually(lambda: enforced.fitting(asking) == "b")
    assert "no longer fits on node a" in enforced.ask_bind("q", "a")
    assert enforced.ask_bind("q", "b") == ""
