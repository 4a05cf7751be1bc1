"""Events on pods about their eviction because they are idle."""

from typing import Any

from scheduler_ext.cluster.events.event_recorder import event_body
from scheduler_ext.features.idle.reclaim.reclaim_plan import Planned
from scheduler_ext.features.idle.reclaim.reclaim_policy import RECLAIM_LABEL
from scheduler_ext.wire.times import span_text, time_text

DRY_RUN = "GPUReclaimDryRun"
WARNED = "GPUReclaimWarning"
CANCELLED = "GPUReclaimCancelled"
EVICTED = "GPUReclaimed"


def dry_run_event(planned: Planned, warn_for_s: float) -> dict[str, Any]:
    """What would happen to the pod if idle.reclaim.mode was evict."""
    note = (
        f"{_idle(planned)}; with idle.reclaim.mode: evict it would be evicted after {span_text(warn_for_s)}"
    )
    return _event(planned, "Normal", DRY_RUN, note)


def warned_event(planned: Planned, evict_at: float) -> dict[str, Any]:
    """The warning of a pod."""
    note = (
        f"{_idle(planned)}; it is evicted at {time_text(evict_at)} or later, unless it computes before: the "
        f"label {RECLAIM_LABEL}=false keeps it"
    )
    return _event(planned, "Warning", WARNED, note)


def cancelled_event(planned: Planned) -> dict[str, Any]:
    """The end of a warning."""
    return _event(planned, "Normal", CANCELLED, "it is not evicted: it is not idle, or may stay idle")


def evicted_event(planned: Planned) -> dict[str, Any]:
    """The eviction of a pod."""
    return _event(planned, "Normal", EVICTED, f"{_idle(planned)}; it was evicted")


def _idle(planned: Planned) -> str:
    idle = planned.idle
    gpus = f"{idle.gpus:.3g} GPUs" if idle is not None and idle.gpus != 1 else "1 GPU"
    return f"{gpus} of this pod computed nothing for {span_text(idle.idle_s if idle is not None else 0)}"


def _event(planned: Planned, kind: str, reason: str, note: str) -> dict[str, Any]:
    pod = planned.pod
    regarding = {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    event = event_body(kind, reason, "Reclaim", note, regarding)
    return event | {"related": {"apiVersion": "v1", "kind": "Node", "name": planned.info.name}}
