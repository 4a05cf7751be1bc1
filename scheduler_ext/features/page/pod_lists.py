"""The pods that hold GPUs or wait for some: listed, found by name, and summed by namespace."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from threading import Lock
from typing import Any

from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo, PendingPod
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.waiting import still_waiting
from scheduler_ext.views.node_usage import PerNode
from scheduler_ext.views.placed_pods import PlacedPod, placed_pods, placed_row

# So much work at a time, then so long a rest: decisions are made by the same interpreter.
_WORK_S = 0.001
_REST_S = 0.002
_NEVER = float("inf")
_Placed = tuple[NodeInfo, tuple[PlacedPod, ...]]


@dataclass(frozen=True, slots=True)
class PodQuery:
    """The pods to list; an empty field admits all. `find` is a part of NAMESPACE/NAME in any case, `node` a
    part of the node's name, `sort` one of SORTS."""

    find: str = ""
    namespace: str = ""
    node: str = ""
    pool: str = ""
    model: str = ""
    sort: str = "name"

    def admits(self, info: NodeInfo) -> bool:
        return (
            self.node.lower() in info.name.lower()
            and self.pool in ("", info.pool)
            and (not self.model or self.model in _models(info))
        )

    def admits_pod(self, pod: BoundPod) -> bool:
        return self.namespace in ("", pod.namespace) and is_found(self.find, pod)


def is_found(find: str, pod: BoundPod) -> bool:
    """Whether a text is a part of the pod's NAMESPACE/NAME, in any case."""
    return not find or find.lower() in f"{pod.namespace}/{pod.name}".lower()


def _distance(find: str, pod: Mapping[str, str]) -> int:
    """0 for a pod with this name, 1 for one whose name begins so, 2 for any other; the name is NAMESPACE/NAME
    if the text has a slash."""
    text = find.lower()
    name = (f"{pod['namespace']}/{pod['name']}" if "/" in text else pod["name"]).lower()
    return 0 if name == text else 1 if name.startswith(text) else 2


def _models(info: NodeInfo) -> set[str]:
    models = {device.model.name for device in info.devices}
    return models | ({info.estimate.model.name} if info.report is None and info.estimate else set())


# The first key of each order; then the pod's name decides.
SORTS: Mapping[str, Callable[[PlacedPod], float]] = {
    "name": lambda placed: 0.0,
    "gpus": lambda placed: -placed.gpus,
    "requested": lambda placed: -placed.requested_mib,
    "used": lambda placed: -(placed.used_mib if placed.used_mib is not None else -1),
    "oldest": lambda placed: _NEVER if placed.since is None else placed.since,
    "newest": lambda placed: _NEVER if placed.since is None else -placed.since,
}


class PlacedPods:
    """The pods of a snapshot, each with its part of the GPUs; those of changed nodes are computed with the
    next question. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._nodes = PerNode(self._compute)
        self._rest_at = 0.0

    def listed(self, snapshot: Snapshot | None, wanted: PodQuery, most: int) -> dict[str, Any]:
        """The first of the wanted pods as plain JSON values, and their number (`total`)."""
        first = SORTS[wanted.sort]
        found = [
            (placed, info)
            for info, pods in self._by_node(snapshot)
            if wanted.admits(info)
            for placed in pods
            if wanted.admits_pod(placed.pod)
        ]
        shown = nsmallest(
            most, found, key=lambda pair: (first(pair[0]), pair[0].pod.namespace, pair[0].pod.name)
        )
        return {"total": len(found), "pods": [placed_row(placed, info) for placed, info in shown]}

    def found(
        self, snapshot: Snapshot | None, pending: Sequence[PendingPod], find: str, most: int
    ) -> dict[str, Any]:
        """The pods with a text in NAMESPACE/NAME, `running` ones on a node and `waiting` ones, as plain JSON
        values: the first of each, those with this name before those that begin with it before others, and
        their number."""
        running = [
            {"namespace": placed.pod.namespace, "name": placed.pod.name, "node": info.name}
            for info, pods in self._by_node(snapshot)
            for placed in pods
            if is_found(find, placed.pod)
        ]
        waiting = [
            {"namespace": each.pod.namespace, "name": each.pod.name}
            for each in pending
            if is_found(find, each.pod)
        ]
        return {
            state: {
                "total": len(pods),
                "pods": nsmallest(
                    most,
                    pods,
                    key=lambda pod: (_distance(find, pod), pod["namespace"], pod["name"]),
                ),
            }
            for state, pods in (("running", running), ("waiting", waiting))
        }

    def by_namespace(
        self, snapshot: Snapshot | None, pending: Sequence[PendingPod], most: int
    ) -> dict[str, Any]:
        """Sums by namespace as plain JSON values, those with the most GPUs first, and the number of
        namespaces (`total`)."""
        sums: dict[str, _Sum] = {}
        for _, pods in self._by_node(snapshot):
            for placed in pods:
                sums.setdefault(placed.pod.namespace, _Sum()).add(placed)
        for each in still_waiting(pending):
            sums.setdefault(each.pod.namespace, _Sum()).add_waiting(each.pod)
        order = nsmallest(most, sums.items(), key=lambda item: (-item[1].gpus, -item[1].waiting, item[0]))
        return {"total": len(sums), "namespaces": [each.values(name) for name, each in order]}

    def _by_node(self, snapshot: Snapshot | None) -> Iterable[_Placed]:
        if snapshot is None:
            return ()
        with self._lock:
            self._rest_at = time.monotonic() + _WORK_S
            by_name: Mapping[str, tuple[PlacedPod, ...]] = self._nodes.of(snapshot)
        return [(node.info, by_name[name]) for name, node in snapshot.nodes.items()]

    def _compute(self, node: Node) -> tuple[PlacedPod, ...]:
        if time.monotonic() > self._rest_at:
            time.sleep(_REST_S)
            self._rest_at = time.monotonic() + _WORK_S
        return placed_pods(node)


@dataclass(slots=True)
class _Sum:
    gpus: float = 0.0
    requested_mib: int = 0
    used_mib: int = 0
    used_known: int = 0
    running: int = 0
    waiting: int = 0
    since: float | None = None

    def add(self, placed: PlacedPod) -> None:
        self.gpus += placed.gpus
        self.requested_mib += placed.requested_mib
        self.used_mib += placed.used_mib or 0
        self.used_known += placed.used_mib is not None
        self.running += 1

    def add_waiting(self, pod: BoundPod) -> None:
        self.waiting += 1
        if pod.created_at is not None:
            self.since = min(self.since or pod.created_at, pod.created_at)

    def values(self, namespace: str) -> dict[str, Any]:
        return {
            "namespace": namespace,
            "gpus": round(self.gpus, 2),
            "requestedMiB": self.requested_mib,
            "usedMiB": self.used_mib if self.used_known else None,
            "usedOf": self.used_known,
            "running": self.running,
            "waiting": self.waiting,
            "waitingSince": self.since,
        }
