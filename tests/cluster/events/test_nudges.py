"""kube-scheduler learns of changes that it cannot see: once, from the active extender, and only for the good
of a pod.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.events import cures as cures_module
from scheduler_ext.core.cache.ledger import Cause
from tests.cluster.api.api_paths import NODES, PODS
from tests.cluster.api.api_requests import writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.living import ONE, SICK, TWO, WHOLE, Living
from tests.extender.preempting import preempt, uids
from tests.kube_objects import GFD_H100, Json, gpu, node, pod

pytestmark = pytest.mark.usefixtures("impatient")
EVENTS = "/apis/events.k8s.io/v1/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/gpu-scheduler/leases"
# As if every refusal were long ago.
LONG_AGO_S = -60.0
SLICE = {"enabled": True, "instances": [{"uuid": "MIG-0", "profile": "1g.10gb", "start": 0, "size": 1}]}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cures_module, "EVERY_S", 0.05)


def full(living: Living) -> None:
    """No GPU is free, and both are sick."""
    for name in "ab":
        living.report(name, gpu(0, **SICK))
    living.start()
    living.greeted()


def looked(living: Living) -> None:
    """Wait until the changes so far were examined twice."""
    for _ in range(2):
        before = living.live.writers.cures._cured_at
        living.live.locked.cache._changed.setdefault("nobody", Cause.NODE)
        eventually(lambda before=before: living.live.writers.cures._cured_at > before)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("asking", "devices"),
    [
        pytest.param(ONE, [gpu(0)], id="a GPU is healthy again"),
        pytest.param(pod("s", {"nvidia.com/mig-1g.10gb": "1"}), [gpu(0, mig=SLICE)], id="instances appear"),
        pytest.param(TWO, [gpu(0), gpu(1)], id="there is one more"),
    ],
)
def test_the_cure_of_a_refusal_is_nudged(
    living: Living, monkeypatch: pytest.MonkeyPatch, asking: Json, devices: list[Json]
) -> None:
    monkeypatch.setattr(cures_module, "_BEHIND_S", LONG_AGO_S)
    full(living)
    assert living.fitting(asking) == ""
    living.report("b", *devices)
    living.server.log.wait_for(writes(NODES))
    looked(living)
    assert living.nudged() == ["b"]
    annotations = living.server.store.get(NODES, "b").object()["metadata"]["annotations"]
    assert list(annotations) == ["gpu.scheduler-ext.io/inventory-changed"]
    assert living.live.writers.recorder.nudges.total() == 2


def test_the_end_of_a_place_that_preempt_named_is_nudged(
    living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU became free meanwhile, and was refused to all pods but one."""
    monkeypatch.setattr(cures_module, "_BEHIND_S", LONG_AGO_S)
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
