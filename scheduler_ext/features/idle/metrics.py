"""The metrics about GPUs and pods that compute nothing. A GPU whose report has no readings counts by its
memory instead, so that there is one number for each node."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.features.idle.idle import NOT_IDLE, Idleness
from scheduler_ext.features.idle.idle_pods import IdleNodes
from scheduler_ext.server.metrics.gpu_metrics import Detail, GpuText, NodeLines, labels_of, visible
from scheduler_ext.server.metrics.namespaces import largest_namespaces
from scheduler_ext.sources.source_status import Watched

_GPUS = "gpu_extender_gpus_idle"
_PODS = "gpu_extender_idle_pods"
_GPUS_HELP = (
    "Allocated GPUs on which no pod computed for idle.after while it ran; without readings, those that no "
    "process opened."
)
_PODS_HELP = (
    "Pods whose GPUs all computed nothing for idle.after while they ran; no series for 0. Beyond 1,000 "
    "namespaces the smallest are combined as _others."
)


class _Counted(NamedTuple):
    """The idle GPUs of a node by model, and their lines; made of these values."""

    text: NodeLines
    idle: Idleness
    by_model: Mapping[str, int]
    lines: bytes


class IdleText:
    """Renders both metrics; for one thread at a time. `gpus` has the GPUs that no process opened."""

    def __init__(
        self,
        source: Watched,
        gpus: GpuText,
        after_s: float,
        detail: Detail,
        wall_time: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._gpus = gpus
        self._idle = IdleNodes(after_s)
        self._detail: Detail = detail
        self._wall_time = wall_time
        self._counted: dict[str, _Counted] = {}

    def render(self) -> bytes:
        """The exposition text."""
        snapshot = self._source.snapshot
        return b"" if snapshot is None else b"".join(self._families(snapshot))

    def _families(self, snapshot: Snapshot) -> Iterator[bytes]:
        status = self._source.status()
        infos = (node.info for node in snapshot.nodes.values())
        idle = self._idle.of(infos, status.readings, status.facts, self._wall_time())
        self._counted = dict(self._nodes(snapshot, idle))
        yield _head(_GPUS, _GPUS_HELP)
        if self._detail == "cluster":
            sums: Counter[str] = Counter()
            for each in self._counted.values():
                sums.update(each.by_model)
            yield _lines(_GPUS, {labels_of(modelName=model): count for model, count in sorted(sums.items())})
        else:
            yield from (each.lines for each in self._counted.values())
        pods = Counter(pod.pod.namespace for each in idle.values() for pod in each.pods)
        if pods:
            yield _head(_PODS, _PODS_HELP)
            by_namespace = largest_namespaces(pods)
            yield _lines(
                _PODS, {labels_of(namespace=name): count for name, count in sorted(by_namespace.items())}
            )

    def _nodes(self, snapshot: Snapshot, idle: Mapping[str, Idleness]) -> Iterator[tuple[str, _Counted]]:
        for name, text in self._gpus.nodes(snapshot).items():
            found = idle.get(name, NOT_IDLE)
            before = self._counted.get(name)
            if before is not None and before.text is text and before.idle is found:
                yield name, before
                continue
            by_model = _idle_gpus(snapshot.nodes[name].info, text, found)
            lines = {labels_of(hostname=name, modelName=model): count for model, count in by_model.items()}
            yield name, _Counted(text, found, by_model, _lines(_GPUS, lines))


def _idle_gpus(info: NodeInfo, text: NodeLines, idle: Idleness) -> dict[str, int]:
    """The number of idle GPUs of each model that the node counts with; none by a report that is old."""
    found = dict.fromkeys(text.by_model, 0)
    if info.freshness != "Fresh":
        return found
    for device in info.devices:
        if device.product in found:
            by_readings = device.uuid in idle.known
            found[device.product] += device.uuid in (idle.gpus if by_readings else text.unopened)
    return found


def _head(name: str, what: str) -> bytes:
    return f"# HELP {name} {what}\n# TYPE {name} gauge\n".encode()


def _lines(name: str, values: Mapping[str, int]) -> bytes:
    return visible("".join(f"{name}{labels} {value}\n" for labels, value in values.items()).encode())
