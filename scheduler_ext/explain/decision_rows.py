"""The last decisions as rows of a list, and requests in a few words."""

from __future__ import annotations

from typing import Any

from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.extender.record import Recorded


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
        "fitting": entry.nodes_out,
        "filters": entry.filters,
        "reason": entry.problem or entry.main_reason,
        "best": best.node if best is not None else None,
        "why": [term.name for term in best.strongest] if best is not None else [],
        "bound": {"node": bound.node, "kind": bound.kind, "error": bound.error} if bound else None,
    }


def asks(request: GpuRequest) -> str:
    """A pod's GPU request in a few words."""
    parts = [f"{ask.count} × {ask.resource}" for ask in request.units]
    if request.shares is not None:
        parts += [f"{mib} MiB of a GPU" for _, mib in request.shares.by_container]
    parts += [f"model {' or '.join(request.models)}"] if request.models else []
    parts += [f"at least {request.min_memory_mib} MiB"] if request.min_memory_mib else []
    parts += [f"at least {request.min_free_mib} MiB free"] if request.min_free_mib else []
    parts += ["exclusive"] if request.exclusive else []
    return ", ".join(parts)
