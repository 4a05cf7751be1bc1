"""The last decisions, and the pods that wait for one, in the few words of a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler_ext.core.node import PendingPod
from scheduler_ext.core.reasons import INVALID_REQUEST
from scheduler_ext.core.request import GpuRequest
from scheduler_ext.extender.record import Record, Recorded
from scheduler_ext.wire.times import micro_time

NOT_LOOKED_AT = "not looked at yet"
# Of more, a list is no help; the number of all is told beside it.
MOST_PENDING = 500


def decision_row(entry: Recorded) -> dict[str, Any]:
    """One record: of so many nodes asked about so many fit, why not the others, where it went."""
    best = entry.candidates[0] if entry.candidates else None
    bound = entry.bound
    return {
        "number": entry.number,
        "at": round(entry.at, 2),
        "uid": entry.uid,
        "namespace": entry.namespace,
        "name": entry.name,
        "asked": entry.nodes_in,
        "fitting": entry.nodes_out,
        "filters": entry.filters,
        "reason": entry.problem or entry.main_reason,
        "best": best.node if best is not None else None,
        "why": [term.name for term in best.strongest] if best is not None else [],
        "bound": {"node": bound.node, "kind": bound.kind, "error": bound.error} if bound else None,
    }


def pending_lines(pending: Sequence[PendingPod], record: Record) -> list[dict[str, Any]]:
    """Who waits for a node, by priority and then by age; at most so many.

    ``reason`` is why most nodes were refused when the pod was last looked at, ``nearest`` what the nearest
    node lacks where somebody worked that out, ``filters`` how often it was looked at.
    """
    first = sorted(pending, key=_urgency)[:MOST_PENDING]
    return [_line(waiting, record.of_uid(waiting.pod.uid)) for waiting in first]


def _urgency(waiting: PendingPod) -> tuple[int, float, str, str]:
    pod = waiting.pod
    return -pod.priority, pod.created_at or 0.0, pod.namespace, pod.name


def _line(waiting: PendingPod, entry: Recorded | None) -> dict[str, Any]:
    pod = waiting.pod
    known = (entry.problem or entry.main_reason) if entry is not None else None
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "priority": pod.priority,
        "asks": waiting.invalid or asks(pod.request),
        "reason": known or (INVALID_REQUEST.text if waiting.invalid else NOT_LOOKED_AT),
        "nearest": None,
        "filters": entry.filters if entry is not None else 0,
        "since": micro_time(pod.created_at) if pod.created_at is not None else None,
        "nominated": waiting.nominated_node,
    }


def asks(request: GpuRequest) -> str:
    """What a pod asks of GPUs in a few words."""
    parts = [f"{ask.count} × {ask.resource}" for ask in request.units]
    if request.shares is not None:
        parts += [f"{mib} MiB of a GPU" for _, mib in request.shares.by_container]
    parts += [f"model {' or '.join(request.models)}"] if request.models else []
    parts += [f"at least {request.min_memory_mib} MiB"] if request.min_memory_mib else []
    parts += [f"at least {request.min_free_mib} MiB free"] if request.min_free_mib else []
    parts += ["exclusive"] if request.exclusive else []
    return ", ".join(parts)
