"""The record of a pod's decisions, whole or as the row of a list, as plain JSON values."""

from typing import Any

from scheduler_ext.extender.answer import ScoredNode
from scheduler_ext.extender.record import Recorded
from scheduler_ext.wire.times import micro_time


def decision_row(entry: Recorded) -> dict[str, Any]:
    """One record: how many of the requested nodes fit, why the others do not, and the chosen node."""
    best = entry.candidates[0] if entry.candidates else None
    bound = entry.bound
    return {
        "number": entry.number,
        "at": round(entry.at, 2),
        "uid": entry.uid,
        "namespace": entry.namespace,
        "name": entry.name,
        "asked": entry.nodes_in,
        "fitting": entry.fitting,
        "filters": entry.filters,
        "reason": entry.problem or entry.main_reason,
        "best": best.node if best is not None else None,
        "why": [term.name for term in best.strongest] if best is not None else [],
        "bound": {"node": bound.node, "kind": bound.kind, "error": bound.error} if bound else None,
    }


def recorded_values(record: Recorded) -> dict[str, Any]:
    """The whole record of one pod."""
    bound = record.bound
    return {
        "at": micro_time(record.at),
        "firstAt": micro_time(record.first_at),
        "filters": record.filters,
        "generation": record.generation,
        "nodesIn": record.nodes_in,
        "nodesOut": record.nodes_out,
        "fitting": record.fitting,
        "reasons": dict(sorted(record.rejected.items(), key=lambda item: -item[1])),
        "best": _candidate(record.candidates[0]) if record.candidates else None,
        "candidates": [_candidate(candidate) for candidate in record.candidates],
        "bound": {
            "at": micro_time(bound.at),
            "node": bound.node,
            "result": bound.kind,
            "error": bound.error or None,
            "devices": {container: list(uuids) for container, uuids in bound.devices.items()},
        }
        if bound is not None
        else None,
    }


def _candidate(candidate: ScoredNode) -> dict[str, Any]:
    return {
        "node": candidate.node,
        "total": round(candidate.total, 6),
        "of": candidate.of,
        "strongest": [term.name for term in candidate.strongest],
        "terms": [
            {"name": term.name} | {key: round(getattr(term, key), 6) for key in ("weight", "value", "mean")}
            for term in candidate.terms
        ],
    }
