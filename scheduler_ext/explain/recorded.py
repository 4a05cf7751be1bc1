"""The record of a pod's decisions, as plain JSON values."""

from __future__ import annotations

from typing import Any

from scheduler_ext.core.framework.decided import Bound, Candidate
from scheduler_ext.extender.record import Recorded
from scheduler_ext.wire import kube
from scheduler_ext.wire.times import micro_time


def recorded_values(record: Recorded) -> dict[str, Any]:
    """A record."""
    return {
        "at": micro_time(record.at),
        "firstAt": micro_time(record.first_at),
        "filters": record.filters,
        "generation": record.generation,
        "nodesIn": record.nodes_in,
        "nodesOut": record.nodes_out,
        "reasons": dict(sorted(record.rejected.items(), key=lambda item: -item[1])),
        "best": _candidate(record.candidates[0]) if record.candidates else None,
        "candidates": [_candidate(candidate) for candidate in record.candidates],
        "bound": _bound(record.bound) if record.bound is not None else None,
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "node": candidate.node,
        "total": round(candidate.total, 6),
        "of": candidate.of,
        "strongest": [term.name for term in candidate.strongest],
        "terms": [
            {
                "name": term.name,
                "weight": round(term.weight, 6),
                "value": round(term.value, 6),
                "mean": round(term.mean, 6),
            }
            for term in candidate.terms
        ],
    }


def _bound(bound: Bound) -> dict[str, Any]:
    return {
        "at": micro_time(bound.at),
        "node": bound.node,
        "result": bound.kind,
        "error": bound.error or None,
        "devices": {container: list(uuids) for container, uuids in bound.devices.items()},
    }


def unschedulable_message(pod: kube.Pod) -> str | None:
    """kube-scheduler's own last message on an unplaced pod; None if there is none."""
    for condition in (pod.status.conditions or ()) if pod.status is not None else ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return None
