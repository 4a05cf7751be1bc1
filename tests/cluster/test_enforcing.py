"""Enforcing mode over a live inventory: pods are bound with their GPUs, by the active extender only."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from scheduler_ext.cluster.client.transport import Transport
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import GPU_RESERVATIONS, NODES, PODS
from tests.cluster.api.api_requests import first_pages, writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.enforced import ADVERTISED, HALF, LABELS, Enforced, held_by
from tests.cluster.following import eventually
from tests.kube_objects import SHARE, node

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.fixture
def enforced(server: ApiServer, transport: Transport) -> Iterator[Enforced]:
    built = Enforced(server, transport)
    yield built
    built.live.stop()


def test_a_pod_is_bound_with_its_gpu_and_its_intent_is_written_first(enforced: Enforced) -> None:
    enforced.share("p")
    enforced.start()
    assert enforced.bind("p", "a") == ""
    found = enforced.there("p")
    assert found["spec"]["nodeName"] == "a"
    assert enforced.gpu_of("p") in ("GPU-a0", "GPU-a1")
    decision = json.loads(found["metadata"]["annotations"]["gpu.scheduler-ext.io/assigned"])
    assert decision == {
        "node": "a",
        "containers": [{"container": "main", "memoryMiB": HALF, "device": enforced.gpu_of("p")}],
    }
    made = [request for request in enforced.server.log.all(writes()) if "nodes" not in request.path]
    assert [request.path.split("/")[-1] for request in made] == ["gpureservations", "binding"]


def test_filter_sees_a_promise_at_once(enforced: Enforced) -> None:
    """kube-scheduler asks about the next pod before it hears of this one's end."""
    for name in "pqrstu":
        enforced.share(name)
    enforced.start()
    for name in "pqrs":
        assert enforced.fitting(enforced.there("t")) == "ab"
        assert enforced.bind(name, "a") == ""
    # An event of the watch may be on its way to filter, with the last promise right behind it.
    eventually(lambda: enforced.fitting(enforced.there("t")) == "b")
    assert "no longer fits on node a" in enforced.bind("t", "a")
    assert enforced.bind("t", "b") == ""
    assert sorted(enforced.gpu_of(name) for name in "pqrs") == ["GPU-a0", "GPU-a0", "GPU-a1", "GPU-a1"]
    assert enforced.counted() == {"bound": 5, "conflict": 1}


def test_a_pod_that_changed_meanwhile_is_tried_once_more(enforced: Enforced) -> None:
    enforced.share("p")
    enforced.start()
    locked = enforced.live.locked
    stale = locked.cache.pending("uid-p")
    assert stale is not None
    changed = enforced.there("p")
    changed["metadata"]["labels"] = {"touched": "yes"}
    enforced.server.store.put(PODS, changed)
    eventually(lambda: locked.cache.pending("uid-p") != stale)
    with locked:
        locked.cache.update_pending(stale)
    assert enforced.bind("p", "a") == ""
    assert enforced.live.binder is not None
    assert +enforced.live.binder.conflicts == {"pod": 1}
    assert len([made for made in enforced.server.log.all(writes()) if made.path.endswith("/binding")]) == 2


class TestLeadership:
    @pytest.fixture
    def enforced(self, server: ApiServer, transport: Transport) -> Iterator[Enforced]:
        held_by(server, "other_1")
        built = Enforced(server, transport, lease=True)
        built.start()
        yield built
        built.live.stop()

    def test_a_standby_binds_nothing_and_is_ready(self, enforced: Enforced) -> None:
        enforced.share("p")
        eventually(lambda: enforced.live.locked.cache.pending("uid-p") is not None)
        assert "is a standby" in enforced.bind("p", "a")
        assert enforced.server.log.count(writes()) == 0
        assert all(check.passed for check in enforced.live.status().checks)

    def test_a_new_leader_lists_again_before_its_first_bind(self, enforced: Enforced) -> None:
        enforced.share("p")
        before = enforced.server.log.count(first_pages(PODS))
        held_by(enforced.server, "me_2")
        eventually(lambda: enforced.bind("p", "a") == "")
        assert enforced.server.log.count(first_pages(PODS)) >= before + 1
        assert enforced.server.log.count(first_pages(GPU_RESERVATIONS)) >= 2


class TestAdvertising:
    def test_a_node_advertises_what_shares_can_have(self, enforced: Enforced) -> None:
        enforced.server.store.put(NODES, node("a", {SHARE: "5"}, labels=LABELS))
        enforced.start()

        def amounts() -> list[object]:
            status = enforced.server.store.get(NODES, "a").object()["status"]
            return [status[part].get(SHARE) for part in ("capacity", "allocatable")]

        eventually(lambda: amounts() == [str(ADVERTISED)] * 2)

    @pytest.mark.parametrize(
        ("room", "labels"),
        [
            pytest.param({SHARE: "80000"}, {}, id="that is not labelled"),
            pytest.param({SHARE: "80000", "nvidia.com/gpu": "2"}, LABELS, id="of a device plugin's"),
        ],
    )
    def test_no_share_is_bound_on_a_node(
        self, enforced: Enforced, room: dict[str, str], labels: dict[str, str]
    ) -> None:
        """With any advertised amount: it may be another component's, and must not be removed."""
        enforced.server.faults.place(Refuse(403), writes(NODES), times=None)
        enforced.server.store.put(NODES, node("a", room, labels=labels))
        asking = enforced.share("p")
        enforced.start()
        assert enforced.fitting(asking) == "b"
        assert "no longer fits on node a" in enforced.bind("p", "a")
        assert enforced.bind("p", "b") == ""
