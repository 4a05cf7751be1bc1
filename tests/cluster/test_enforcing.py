"""Enforcing mode over a live inventory: pods are bound with their GPUs, by the active extender only."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from scheduler_ext.cluster.client.transport import Transport
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import NODES, PODS
from tests.cluster.api.api_requests import writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.enforced import HALF, LABELS, Enforced
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


class TestAdvertising:
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
