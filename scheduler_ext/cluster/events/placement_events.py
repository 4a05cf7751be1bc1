"""Events on pods that were bound to a node after this extender decided on them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler_ext.cluster.events.event_recorder import event_body
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.answer import RecordedBind
from scheduler_ext.extender.record import Record, Recorded

REASON = "GPUPlacement"
_BY_US = ("bound", "repeated")


@dataclass(frozen=True, eq=False)
class PlacementEvents:
    """Finds pods that are new on changed nodes, and records where they were bound; for one thread. `write`
    takes a function that makes the Event when it is written."""

    record: Record
    write: Callable[[Callable[[], dict[str, Any]]], None]

    def follow(self, before: Snapshot, infos: Mapping[str, NodeInfo | None]) -> None:
        """Look at nodes that changed since this snapshot."""
        for name, info in infos.items():
            if info is None or not info.pods:
                continue
            known = before.nodes.get(name)
            # An assumed pod is not bound yet: it is new when its Binding is seen.
            there = {pod.uid for pod in known.info.pods} - known.info.assumed if known is not None else set()
            for pod in info.pods:
                if pod.uid not in there and pod.uid not in info.assumed and pod.holds:
                    self._placed(pod, info)

    def _placed(self, pod: BoundPod, info: NodeInfo) -> None:
        node = info.name
        chosen_by = "kube-scheduler for a claim" if pod.is_claimant(info) else "the device plugin"
        entry = self.record.of_uid(pod.uid)
        # kube-scheduler did not ask about this pod, so it was not placed here.
        if entry is None or not entry.filters:
            return
        if entry.bound is None or entry.bound.kind not in _BY_US:
            seen = RecordedBind(time.time(), node, "seen", "", pod.devices)
            self.record.bound(pod.uid, pod.namespace, pod.name, seen)
        self.write(lambda: placement_event(pod, node, entry, chosen_by))


def placement_event(pod: BoundPod, node: str, entry: Recorded, chosen_by: str) -> dict[str, Any]:
    """The Event of a pod that was bound to its node, where this component chose GPUs that are not known."""
    regarding = {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    event = event_body("Normal", REASON, "Binding", _note(pod, node, entry, chosen_by), regarding)
    return event | {"related": {"apiVersion": "v1", "kind": "Node", "name": node}}


def _note(pod: BoundPod, node: str, entry: Recorded, chosen_by: str) -> str:
    """The node, the GPUs as far as they are known, and the two strongest reasons."""
    devices = [f"{container}: {', '.join(uuids)}" for container, uuids in sorted(pod.devices.items())]
    where = f"on {node}" + (f" ({'; '.join(devices)})" if devices else f", GPUs picked by {chosen_by}")
    candidate = next((each for each in entry.candidates if each.node == node), None)
    if entry.fitting == 1:
        # For a pod with a nomination or a kept place, only this node is considered.
        alone = entry.nodes_in == 1 or entry.nodes_in - sum(entry.rejected.values()) > 1
        return f"{where}; the only node that " + ("was considered" if alone else "fitted")
    # kube-scheduler adds scores of its own.
    if candidate is None:
        return f"{where}; one of {entry.fitting} that fitted"
    rank = "best" if candidate is entry.candidates[0] else "among the best"
    terms = [f"{term.name} {term.value:.2f} (mean {term.mean:.2f})" for term in candidate.strongest]
    return f"{where}; {rank} of {candidate.of} that fitted" + (f": {', '.join(terms)}" if terms else "")
