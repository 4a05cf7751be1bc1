"""Extenders that reclaim on a cluster whose time the test sets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.extender import Extender
from scheduler_ext.features.idle.reclaim.reclaim_wire import RECORD_ANNOTATION
from scheduler_ext.features.idle.reclaim.reclaimer import Reclaimer
from scheduler_ext.features.idle.settings import ReclaimSection
from scheduler_ext.sources.clusterstate import ClusterState, state_of
from scheduler_ext.sources.source_status import Check, SourceStatus
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_objects
from scheduler_ext.wire.times import seconds, time_text
from tests.cluster.api.api_paths import BUDGETS, GPU_NODES, LEASES, NAMESPACES, NODES, PODS
from tests.cluster.api.api_requests import Match, Request, writes
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, gpu, gpu_node, holder, inventory, node, pod

WHOLE = "nvidia.com/gpu"
RECLAIM = "gpu.scheduler-ext.io/reclaim"
AT = "gpu.scheduler-ext.io/reclaim-at"
HOUR_S = 3600.0
MINUTE_S = 60.0
EXTENDERS = "gpu-scheduler"
WARN_S = 15 * MINUTE_S


@dataclass
class Cluster:
    """A node of one GPU for each pod. `now` is the time of the API server; an agent's report is new unless
    `silent` has its node, with the time of its last report."""

    server: ApiServer
    transport: Transport
    now: float = 1_800_000_000.0
    idle_s: dict[str, int | None] = field(default_factory=dict)
    silent: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server.clock = lambda: self.now
        for name in ("lab", "prod"):
            labels = {"labels": {RECLAIM: "true"}} if name == "lab" else {}
            self.server.store.put(NAMESPACES, _object("v1", "Namespace", name, labels))

    def add(
        self,
        name: str,
        idle_s: int | None = 7200,
        ran_s: float = 90_000.0,
        namespace: str = "lab",
        **more: Any,
    ) -> None:
        """A pod that has run for so long, on a node of its own; `more` is further metadata."""
        found = pod(name, {WHOLE: "1"}, on=name)
        found["metadata"] |= {
            "namespace": namespace,
            "creationTimestamp": time_text(self.now - ran_s),
            **more,
        }
        found["status"]["startTime"] = time_text(self.now - ran_s)
        self.server.store.put(NODES, node(name, {WHOLE: "1"}))
        device = gpu(0, f"GPU-{name}", model="T4", total=15360, holders=[holder(name, namespace)])
        self.server.store.put(GPU_NODES, gpu_node(name, [device]))
        self.server.store.put(PODS, found)
        self.idle_s[name] = idle_s

    def label(self, name: str, value: str) -> None:
        self._change(name, lambda metadata: metadata | {"labels": {RECLAIM: value}})

    def annotate(self, name: str, value: str) -> None:
        """Write another time into a pod's warning."""
        self._change(name, lambda metadata: metadata | {"annotations": {AT: value}})

    def _change(self, name: str, change: Callable[[Json], Json]) -> None:
        namespace = next(each["namespace"] for each in self.pods().values() if each["name"] == name)
        self.server.store.update(
            PODS, name, lambda before: before | {"metadata": change(before["metadata"])}, namespace
        )

    def budget(self, app: str, allowed: int) -> None:
        """A budget of the pods with the label app; None of them may be disrupted if `allowed` is 0."""
        found = _object("policy/v1", "PodDisruptionBudget", app, {"namespace": "lab"})
        selector = {"spec": {"selector": {"matchLabels": {"app": app}}}}
        self.server.store.put(BUDGETS, found | selector | {"status": {"disruptionsAllowed": allowed}})

    def pods(self) -> dict[str, Json]:
        """The metadata of all pods by name."""
        found = [each["metadata"] for each in self.server.store.objects(PODS)]
        return {each["name"]: each for each in found}

    def warned(self) -> dict[str, float]:
        """Seconds from now until the eviction that a warning names, by pod."""
        found = {name: (metadata.get("annotations") or {}).get(AT) for name, metadata in self.pods().items()}
        times = {name: seconds(text) for name, text in found.items() if text is not None}
        return {name: round(at - self.now) for name, at in times.items() if at is not None}

    def leaving(self) -> list[str]:
        """The pods that were evicted."""
        return sorted(name for name, metadata in self.pods().items() if "deletionTimestamp" in metadata)

    def recorded(self) -> list[str]:
        """The uids of the pods in the record."""
        for each in self.server.store.objects(LEASES):
            metadata = each["metadata"]
            assert (metadata["namespace"], metadata["name"]) == (EXTENDERS, "gpu-scheduler-reclaim")
            return sorted(json.loads(metadata["annotations"][RECORD_ANNOTATION]))
        return []

    def age(self, seconds: float) -> None:
        """Let time pass in which idle pods stay idle and agents report."""
        self.now += seconds
        self.idle_s = {
            name: None if idle_s is None else idle_s + int(seconds) for name, idle_s in self.idle_s.items()
        }

    def state(self) -> ClusterState:
        """The cluster as a watch without delay shows it."""
        paths = (NODES, GPU_NODES, PODS)
        objects = [each for path in paths for each in self.server.store.objects(path)]
        for each in objects:
            if each["kind"] == "GPUNode" and (idle_s := self.idle_s[each["metadata"]["name"]]) is not None:
                each["status"]["devices"][0]["idleSeconds"] = idle_s
        return state_of(read_objects(inventory(*objects)), "test", Configuration().resource_names())


class Extending:
    """One extender on it. `late` has the state that its watches show, None: the present one."""

    def __init__(self, cluster: Cluster, mode: str = "evict", **reclaim: Any) -> None:
        settings = {"min_age": "1h", "warn_for": "15m", "per_hour": 4} | reclaim
        config = Configuration().with_sections(ReclaimSection(mode=mode, **settings))  # type: ignore[arg-type]
        self.cluster = cluster
        self.late: ClusterState | None = None
        self.active = True
        self.events: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.reclaimer = Reclaimer(cluster.transport, lambda: self.active, config, EXTENDERS, self, self._say)

    def look(self) -> None:
        """One look; raises ClusterError."""
        self.reclaimer.look()

    @property
    def counts(self) -> dict[str, int]:
        """The results other than 0."""
        return {str(name): count for name, count in self.reclaimer.reclaims.items() if count}

    @property
    def snapshot(self) -> Snapshot:
        state = self._state()
        extender = Extender(Configuration())
        silent = self.cluster.silent
        stale = {name for name, at in silent.items() if self.cluster.now - at >= 150}
        infos = (
            replace(info, freshness="Stale") if info.name in stale else info for info in state.infos.values()
        )
        extender.replace_nodes(infos)
        snapshot = extender.snapshot
        assert snapshot is not None
        return snapshot

    def status(self) -> SourceStatus:
        state = self._state()
        ages = {
            name: self.cluster.now - self.cluster.silent.get(name, self.cluster.now) for name in state.infos
        }
        checks = [Check("inventory", True)]
        return SourceStatus(checks, 0.0, report_ages_s=ages, readings=state.readings, facts=state.facts)

    def _state(self) -> ClusterState:
        return self.cluster.state() if self.late is None else self.late

    def _say(self, make: Callable[[], dict[str, Any]]) -> None:
        event = make()
        self.events.append((event["reason"], event["regarding"]["name"]))
        self.notes.append(event["note"])


def warned(cluster: Cluster, *names: str, **reclaim: Any) -> Extending:
    """An extender whose warnings of these pods are over."""
    for name in names:
        cluster.add(name)
    extender = Extending(cluster, **reclaim)
    extender.look()
    cluster.age(WARN_S)
    return extender


def _object(version: str, kind: str, name: str, metadata: Mapping[str, Any]) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}


def evictions(name: str = "") -> Match:
    """The requests that evict a pod, or any."""

    def is_eviction(request: Request) -> bool:
        return writes(PODS, "POST")(request) and request.path.endswith(f"{name}/eviction")

    return is_eviction
