"""Pods that came to a node after we were asked about them: remembered, and told by an Event on the pod."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from scheduler_ext.core.framework.decided import Bound, Candidate
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.record import Record, Recorded
from scheduler_ext.wire.times import micro_time

REASON = "GPUPlacement"
_NOTE_CHARS = 1024
_BY_US = ("bound", "repeated")


class PlacementEvents:
    """Looks at what changed for pods that are new on a node; for one thread.

    ``tell`` takes what makes the Event, for whoever writes it to call.
    """

    def __init__(self, record: Record, tell: Callable[[Callable[[], dict[str, Any]]], None]) -> None:
        self._record = record
        self._tell = tell

    def follow(self, before: Snapshot, infos: Mapping[str, NodeInfo | None]) -> None:
        """Nodes that changed since this snapshot."""
        for name, info in infos.items():
            if info is None or not info.pods:
                continue
            known = before.nodes.get(name)
            # What is assumed is not bound yet; its pod is new when its Binding is seen.
            there = {pod.uid for pod in known.info.pods} - known.info.assumed if known is not None else set()
            for pod in info.pods:
                if pod.uid not in there and pod.uid not in info.assumed and pod.holds:
                    self._placed(pod, name)

    def _placed(self, pod: BoundPod, node: str) -> None:
        entry = self._record.of_uid(pod.uid)
        # Pods that nobody asked us about are not of our placing.
        if entry is None or not entry.filters:
            return
        if entry.bound is None or entry.bound.kind not in _BY_US:
            seen = Bound(time.time(), node, "seen", "", pod.devices)
            self._record.bound(pod.uid, pod.namespace, pod.name, seen)
        self._tell(lambda: placement_event(pod, node, entry))


def placement_event(pod: BoundPod, node: str, entry: Recorded) -> dict[str, Any]:
    """The Event of a pod that is on its node."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{pod.name[:200].rstrip('.-')}-", "namespace": pod.namespace},
        "eventTime": micro_time(time.time()),
        "reportingController": "scheduler-ext.io/extender",
        "reportingInstance": "scheduler-ext",
        "type": "Normal",
        "reason": REASON,
        "action": "Binding",
        "note": _note(pod, node, entry)[:_NOTE_CHARS],
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
        "related": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _note(pod: BoundPod, node: str, entry: Recorded) -> str:
    """Where it is, on which GPUs as far as that is known, and the two strongest reasons."""
    devices = [f"{container}: {', '.join(uuids)}" for container, uuids in sorted(pod.devices.items())]
    where = f"on {node}" + (f" ({'; '.join(devices)})" if devices else ", GPUs picked by the device plugin")
    candidate = next((each for each in entry.candidates if each.node == node), None)
    return f"{where}; {_why(candidate, entry)}"


def _why(candidate: Candidate | None, entry: Recorded) -> str:
    if candidate is None:
        # kube-scheduler asks for no scores where one node fits, and weighs scores of its own besides.
        return (
            "the only node that fitted" if entry.nodes_out == 1 else f"one of {entry.nodes_out} that fitted"
        )
    best = candidate is entry.candidates[0]
    rank = "best" if best else "among the best"
    terms = [f"{term.name} {term.value:.2f} (mean {term.mean:.2f})" for term in candidate.strongest]
    return f"{rank} of {candidate.of} that fitted" + (f": {', '.join(terms)}" if terms else "")
