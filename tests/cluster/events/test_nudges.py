"""kube-scheduler learns of changes that it cannot see: once, from the active extender, and only for the good
of a pod.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.events import queueing_hints
from scheduler_ext.core.cache.ledger import Cause
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects, read_pods
from scheduler_ext.wire.pod.pod_request import pod_request
from tests.cluster.api.api_paths import NODES, PODS
from tests.cluster.api.api_requests import writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.living import ONE, SICK, TWO, WHOLE, Living
from tests.extender.preempting import preempt, uids
from tests.kube_objects import GFD_H100, gpu, gpu_node, inventory, node, pod

pytestmark = pytest.mark.usefixtures("impatient")
EVENTS = "/apis/events.k8s.io/v1/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/gpu-scheduler/leases"
# As if every refusal were long ago.
LONG_AGO_S = -60.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing_hints, "EVERY_S", 0.05)


def looked(living: Living) -> None:
    """Wait until the changes so far were examined twice."""
    for _ in range(2):
        before = living.live.writers.queueing_hints._checked_at
        living.live.locked.cache._changed.setdefault("nobody", Cause.NODE)
        eventually(lambda before=before: living.live.writers.queueing_hints._checked_at > before)  # type: ignore[misc]


def test_the_cure_of_a_refusal_is_nudged(living: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing_hints, "_BEHIND_S", LONG_AGO_S)
    # No GPU is free, and both are sick.
    for name in "ab":
        living.report(name, gpu(0, **SICK))
    living.start()
    living.greeted()
    assert living.fitting() == ""
    living.report("b", gpu(0))
    living.server.log.wait_for(writes(NODES))
    looked(living)
    assert living.nudged() == ["b"]
    annotations = living.server.store.get(NODES, "b").object()["metadata"]["annotations"]
    assert list(annotations) == ["gpu.scheduler-ext.io/inventory-changed"]
    assert living.live.recorder.nudges.total() == 2


def test_the_end_of_a_place_that_preempt_named_is_nudged(
    living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU became free meanwhile, and was refused to all pods but one."""
    monkeypatch.setattr(queueing_hints, "_BEHIND_S", LONG_AGO_S)
    for name in "ab":
        living.bind(f"p-{name}", on=name)
    living.start()
    living.greeted()
    urgent = pod("urgent", {WHOLE: "1"}, priority=100)
    assert preempt(living.extender, urgent, {"a": uids("p-a")}) == {"a": ["p-a"]}
    living.server.store.delete(PODS, "p-a", "default")
    eventually(lambda: not living.live.snapshot.nodes["a"].info.pods[0].holds)  # type: ignore[union-attr]
    assert living.fitting() == ""
    looked(living)
    assert living.nudged() == []
    living.server.store.put(PODS, urgent)
    living.server.store.delete(PODS, "urgent", "default")
    living.server.log.wait_for(writes(NODES))
    assert living.nudged() == ["a"]


def test_the_first_nudge_is_on_a_node_with_gpus(living: Living) -> None:
    """Pods refused before this process began may wait."""
    for name in "ab":
        living.server.store.delete(NODES, name)
    living.server.store.put_all(NODES, [node("0-cpu"), node("c", {WHOLE: "8"}, labels=GFD_H100)])
    living.start()
    living.server.log.wait_for(writes(NODES))
    assert living.nudged() == ["c"]


class TestOfTwoExtenders:
    def lease(self, server: ApiServer, holder: str) -> None:
        spec = {"holderIdentity": f"{holder}_1"}
        server.store.put(LEASES, {"metadata": {"name": "lease", "namespace": "gpu-scheduler"}, "spec": spec})

    @pytest.fixture
    def pair(self, server: ApiServer, transport: Transport, quick: None) -> Iterator[Living]:
        built = Living(server, transport, ("gpu-scheduler", "lease", "me"))
        yield built
        built.live.stop()

    def test_a_new_active_extender_writes(self, server: ApiServer, pair: Living) -> None:
        self.lease(server, "other")
        pair.start()
        assert pair.fitting(TWO) == ""
        # Requests are answered shortly before the active extender learns of its start.
        looked(pair)
        self.lease(server, "me")
        eventually(lambda: pair.live.status().active)
        pair.report("b", gpu(0), gpu(1))
        server.log.wait_for(writes(NODES))
        assert pair.nudged() == ["b"]

    def test_a_new_active_extender_nudges_earlier_refusals(self, server: ApiServer, pair: Living) -> None:
        self.lease(server, "other")
        pair.start()
        for index in (1, 2):
            pair.report("b", gpu(0), gpu(0, f"GPU-{index}"))
            eventually(lambda index=index: pair.live.writers.report_problems.refusals == {"b": index})  # type: ignore[misc]
        pair.report("a", gpu(0), gpu(0, "GPU-1"))
        eventually(lambda: pair.live.writers.report_problems.refusals == {"a": 1, "b": 2})
        pair.report("a", gpu(0, healthy=True))
        looked(pair)
        self.lease(server, "me")
        (event,) = server.log.wait_for(writes(EVENTS))
        # Changes that are undone meanwhile do not count; the latest of the others does.
        assert (event.json()["regarding"]["name"], event.json()["regarding"]["uid"]) == ("b", "uid-b")
        assert "GPUNode b" in event.json()["note"]
        looked(pair)
        assert server.log.count(writes(EVENTS)) == 1

    def test_an_extender_is_ready_when_it_knows_the_leader(self, server: ApiServer, pair: Living) -> None:
        pair.start()
        assert not pair.live.status().active
        assert pair.notes()["watch-leases"] == "ok"
        assert pair.fitting() == "ab"


# By the times of the change and of the refusal, to the second.


@pytest.fixture
def unfollowed(server: ApiServer, transport: Transport, monkeypatch: pytest.MonkeyPatch) -> Living:
    """A publisher driven by the test: no thread runs, and each change is examined on arrival."""
    monkeypatch.setattr(queueing_hints, "EVERY_S", 0.0)
    living = Living(server, transport)
    resources = Configuration().resource_names()
    sick = assemble(read_objects(inventory(*(gpu_node(n, [gpu(0, **SICK)]) for n in "ab"))), resources)
    living.extender.replace_nodes(sick.values())
    return living


def healed(living: Living) -> Snapshot:
    """Node b gets a good GPU; the snapshot before it."""
    assert living.live.snapshot is not None
    before = living.live.snapshot
    good = assemble(read_objects(inventory(gpu_node("b", [gpu(0)]))), Configuration().resource_names())
    living.extender.update_nodes(dict(good))
    return before


@pytest.mark.parametrize(
    ("arrived_s", "nudged"),
    [
        pytest.param(44.5, ["b"], id="soon enough after the refusal, and looked at a second later"),
        pytest.param(45.5, [], id="so late that kube-scheduler has known for longer"),
    ],
)
def test_a_release_is_as_late_as_it_arrived(unfollowed: Living, arrived_s: float, nudged: list[str]) -> None:
    assert unfollowed.fitting() == ""
    refused_at = time.monotonic()
    healed(unfollowed)
    unfollowed.live.writers.queueing_hints.follow(
        {"b": Cause.POD}, refused_at + arrived_s, unfollowed.live.snapshot
    )
    assert list(unfollowed.live.recorder._nudges) == nudged


def test_a_change_arrives_when_it_is_heard_of(unfollowed: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at publication, which may be later by the publisher's rest."""
    arrived: list[float] = []
    monkeypatch.setattr(
        unfollowed.live.writers.queueing_hints, "follow", lambda changes, at, now: arrived.append(at)
    )
    before = time.monotonic()
    unfollowed.live._wake()
    heard = time.monotonic()
    unfollowed.live._wake()
    eventually(lambda: time.monotonic() > heard)
    unfollowed.live._publish()
    assert before <= arrived[0] <= heard
    unfollowed.live._publish()
    assert arrived[1] > heard


def test_a_refusal_on_the_snapshot_before_a_change_is_cured_by_it(unfollowed: Living) -> None:
    """A request that began before the change and ended after its examination."""
    before = healed(unfollowed)
    unfollowed.live.writers.queueing_hints.follow(
        {"b": Cause.REPORT}, time.monotonic(), unfollowed.live.snapshot
    )
    request = pod_request(read_pods(json.dumps(ONE).encode())[0], Configuration().resource_names())
    assert isinstance(request, GpuRequest)
    rows = before.rows(["a", "b"])
    unfollowed.extender.refusals.remember(request, rows, before, time.monotonic())
    unfollowed.live.writers.queueing_hints.follow({}, time.monotonic(), unfollowed.live.snapshot)
    assert list(unfollowed.live.recorder._nudges) == ["b"]
    # Not forever: a change is examined twice.
    unfollowed.live.recorder._nudges.clear()
    unfollowed.extender.refusals.remember(request, rows, before, time.monotonic())
    unfollowed.live.writers.queueing_hints.follow({}, time.monotonic(), unfollowed.live.snapshot)
    assert not unfollowed.live.recorder._nudges
