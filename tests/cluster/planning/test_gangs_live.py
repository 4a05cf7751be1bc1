"""Gangs of a live inventory, on an API server with faults: what is written, in which order, and what a new
extender does with what it finds."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scheduler_ext.cluster import live as live_module
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.live import LiveInventory
from scheduler_ext.core.planning.gang import GATE
from scheduler_ext.core.planning.plan import State
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration, GangsSection, NominateSection
from scheduler_ext.wire.times import time_text
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import Request, writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.kube_objects import Json, gpu, gpu_node, names_body, node, pod

WHOLE = "nvidia.com/gpu"
OURS = "gpu.scheduler-ext.io/"
GANGS = Configuration(nominate=NominateSection(enabled=True, gangs=GangsSection(enabled=True)))

PREEMPTING = Configuration(
    nominate=NominateSection(enabled=True, gangs=GangsSection(enabled=True, preempts=True))
)


class Cluster:
    """Nodes of one GPU each, with extenders that plan gangs."""

    def __init__(self, server: ApiServer, transport: Transport, *nodes: str) -> None:
        self.server, self.transport = server, transport
        self.lives: list[LiveInventory] = []
        for name in nodes:
            self.add_node(name)

    def add_node(self, name: str) -> None:
        self.server.store.put(NODES, node(name, {WHOLE: "1", "cpu": "8", "memory": "64Gi", "pods": "110"}))
        self.server.store.put(GPU_NODES, gpu_node(name, [gpu(0, f"GPU-{name}")]))

    def extender(self, config: Configuration = GANGS) -> LiveInventory:
        """A running extender."""
        live = LiveInventory(self.transport, Extender(config), config)
        live.start()
        self.lives.append(live)
        eventually(lambda: live.snapshot is not None)
        return live

    def add(self, name: str, size: int = 2, **fields: Any) -> None:
        """A member of the gang `train`."""
        notes = {f"{OURS}gang": "train", f"{OURS}gang-size": str(size), **fields.pop("notes", {})}
        gates = [] if fields.pop("ungated", False) else [{"name": GATE}]
        spec = {"schedulingGates": gates, "schedulerName": "gpu-scheduler", **fields}
        found = pod(name, {WHOLE: "1"}, annotations=notes, **spec)
        found["metadata"]["creationTimestamp"] = time_text(time.time())
        self.server.store.put(PODS, found)

    def get(self, name: str) -> Json:
        """A pod as it is now."""
        return self.server.store.get(PODS, name, "default").object()

    def bind(self, name: str, on: str) -> None:
        """Bind a pod as kube-scheduler does."""

        def bound(before: Json) -> Json:
            status = before["status"] | {"phase": "Running"}
            return before | {"spec": before["spec"] | {"nodeName": on}, "status": status}

        self.server.store.update(PODS, name, bound, "default")

    def places(self) -> dict[str, str]:
        """The nodes of the nominated pods."""
        pods = [each.object() for each in self.server.store.collection(PODS).current()]
        return {
            each["metadata"]["name"]: node
            for each in pods
            if (node := each["status"].get("nominatedNodeName")) is not None
        }

    def gated(self) -> set[str]:
        """The pods behind the gate."""
        pods = [each.object() for each in self.server.store.collection(PODS).current()]
        return {each["metadata"]["name"] for each in pods if each["spec"].get("schedulingGates")}

    def stop(self) -> None:
        for live in self.lives:
            live.stop()


@pytest.fixture
def make(
    server: ApiServer, transport: Transport, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Cluster]]:
    monkeypatch.setattr(live_module, "_TICK_S", 0.02)
    monkeypatch.setattr(live_module, "_PUBLISH_EVERY_S", 0.002)
    made: list[Cluster] = []

    def cluster(*nodes: str) -> Cluster:
        made.append(Cluster(server, transport, *nodes))
        return made[-1]

    yield cluster
    server.faults.lift()
    for each in made:
        each.stop()
    eventually(lambda: not any(thread.name.startswith("watch-") for thread in threading.enumerate()))


def is_lift(request: Request) -> bool:
    return writes(PODS, "PATCH")(request) and not request.path.endswith("/status")


def is_eviction(request: Request) -> bool:
    """One that is no dry run."""
    return request.method == "POST" and request.path.endswith("/eviction") and not request.query


def is_nomination(request: Request) -> bool:
    return writes(PODS, "PATCH")(request) and request.path.endswith("/status")


def test_all_members_are_nominated_before_a_gate_goes(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2")
    cluster.add("a")
    cluster.add("b")
    cluster.extender()
    eventually(lambda: cluster.gated() == set())
    assert {*cluster.places().values()} == {"n1", "n2"}
    order = [
        "lift" if is_lift(each) else "nominate" for each in cluster.server.log.all(writes(PODS, "PATCH"))
    ]
    assert order == ["nominate", "nominate", "lift", "lift"]
    assert f"{OURS}gang-start-by" in cluster.get("a")["metadata"]["annotations"]


def test_no_gate_goes_while_the_gang_does_not_fit(make: Callable[..., Cluster]) -> None:
    cluster = make("n1")
    cluster.add("a")
    cluster.add("b")
    live = cluster.extender()
    eventually(lambda: any("1 of 2 members fit" in note for note in live.notes_on("uid-a")))
    assert (cluster.gated(), cluster.places()) == ({"a", "b"}, {})
    assert live.planning is not None
    assert {entry.state for entry in live.planning.plan().entries} == {State.UNSCHEDULABLE}
    cluster.add_node("n2")
    eventually(lambda: cluster.gated() == set())


def test_no_gate_goes_while_a_nomination_fails(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2")
    fault = cluster.server.faults.place(
        Refuse(503), lambda each: is_nomination(each) and "/b/" in each.path, times=None
    )
    cluster.add("a")
    cluster.add("b")
    cluster.extender()
    eventually(lambda: "a" in cluster.places())
    time.sleep(0.3)
    assert cluster.gated() == {"a", "b"}
    fault.lift()
    eventually(lambda: cluster.gated() == set())


def test_a_new_extender_goes_on_after_a_part_of_the_gates_went(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2")
    later = time_text(time.time() + 100)
    planned = '{"node":"%s","until":"' + later + '"}'
    for name, place, ungated in (("a", "n1", True), ("b", "n2", False)):
        notes = {f"{OURS}gang-start-by": later, f"{OURS}planned": planned % place}
        cluster.add(name, notes=notes, ungated=ungated)
        cluster.server.store.update(
            PODS,
            name,
            lambda old, at=place: old | {"status": old["status"] | {"nominatedNodeName": at}},  # type: ignore[misc]
            "default",
        )
    cluster.extender()
    eventually(lambda: cluster.gated() == set())
    assert cluster.places() == {"a": "n1", "b": "n2"}


def test_a_late_gang_is_evicted_whole(make: Callable[..., Cluster]) -> None:
    cluster = make("n1")
    past = {f"{OURS}gang-start-by": time_text(time.time() - 1)}
    cluster.add("a", notes=past, ungated=True)
    cluster.add("b", notes=past, ungated=True)
    cluster.bind("a", "n1")
    cluster.extender()
    eventually(lambda: all("deletionTimestamp" in cluster.get(each)["metadata"] for each in "ab"))


def test_the_deadline_goes_once_all_members_run(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2")
    cluster.add("a")
    cluster.add("b")
    cluster.extender()
    eventually(lambda: cluster.gated() == set())
    for name, place in cluster.places().items():
        cluster.bind(name, place)
    eventually(
        lambda: (
            not any(f"{OURS}gang-start-by" in cluster.get(name)["metadata"]["annotations"] for name in "ab")
        )
    )


def test_room_that_is_kept_for_a_gang_is_refused_to_others(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2")
    cluster.server.store.put(PODS, pod("long", {WHOLE: "1"}, on="n1"))
    cluster.add("a")
    cluster.add("b")
    live = cluster.extender()
    eventually(lambda: bool(live.notes_on("uid-a")))
    other = pod("other", {WHOLE: "1"})

    def passed() -> list[str]:
        answer = live._extender.filter(names_body(other, ["n1", "n2"]), time.monotonic() + 60)
        found: list[str] = json.loads(answer.body)["NodeNames"]
        return found

    eventually(lambda: passed() == [])
    cluster.server.store.delete(PODS, "long", "default")
    eventually(lambda: cluster.gated() == set())


def test_what_victims_leave_is_kept_for_the_gang_though_an_eviction_fails(
    make: Callable[..., Cluster],
) -> None:
    cluster = make("n1", "n2")
    for name in ("n1", "n2"):
        cluster.server.store.put(PODS, pod(f"on-{name}", {WHOLE: "1"}, on=name))
    cluster.server.faults.place(
        Refuse(503, retry_after_s=60), lambda each: is_eviction(each) and len(evictions()) > 1, times=None
    )
    cluster.add("a", priority=10)
    cluster.add("b", priority=10)

    def evictions() -> list[str]:
        return [each.path.split("/")[-2] for each in cluster.server.log.all(is_eviction)]

    live = cluster.extender(PREEMPTING)
    eventually(lambda: len(evictions()) == 2)
    kept = [live.locked.cache.kept(f"uid-{name}") for name in "ab"]
    assert {each.node for each in kept if each is not None} == {"n1", "n2"}
    first, second = evictions()
    assert "deletionTimestamp" in cluster.get(first)["metadata"]
    assert "deletionTimestamp" not in cluster.get(second)["metadata"]

    def is_noted() -> bool:
        assert live.planning is not None
        assert live.planning.gangs is not None
        return live.planning.gangs.writes.own.is_gone(f"uid-{first}")

    def lasts() -> bool:
        """Beyond the pause that the API server asked for."""
        again = live.locked.cache.kept("uid-a")
        return again is not None and again.until > time.monotonic() + 60

    eventually(lambda: is_noted() and lasts())


def test_a_gated_pod_of_no_gang_starts_alone(make: Callable[..., Cluster]) -> None:
    cluster = make("n1")
    cluster.add("a", size=1)
    cluster.extender()
    eventually(lambda: cluster.gated() == set())


def test_a_pod_without_a_gate_that_names_a_gang_of_one_is_planned_alone(make: Callable[..., Cluster]) -> None:
    """Such as the worker of a job with no other."""
    cluster = make("n1")
    cluster.add("a", size=1, ungated=True)
    cluster.extender(
        Configuration(nominate=NominateSection(enabled=True, from_nodes=0, gangs=GangsSection(enabled=True)))
    )
    eventually(lambda: cluster.places() == {"a": "n1"})
    assert not cluster.server.log.all(is_lift)


def test_pods_of_other_schedulers_stay_as_they_are(make: Callable[..., Cluster]) -> None:
    cluster = make("n1")
    cluster.add("a", size=1, schedulerName="other")
    cluster.extender()
    time.sleep(0.3)
    assert cluster.gated() == {"a"}


def test_off_means_off(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2")
    cluster.add("a")
    cluster.add("b")
    live = cluster.extender(Configuration(nominate=NominateSection(enabled=True)))
    time.sleep(0.3)
    assert live.gang_pods is None
    assert cluster.gated() == {"a", "b"}
    assert cluster.server.log.all(writes(PODS)) == []
