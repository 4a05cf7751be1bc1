"""Requests that no node took, and what would cure them.

kube-scheduler looks at a refused pod again when something happens that it can see. What it cannot see (a GPU
is healthy again, memory came free) it has to be told, but only where that helps a pod that waits.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from threading import Lock

from cachetools import LRUCache

from scheduler_ext.core.columns import Ints
from scheduler_ext.core.cycle import FITS, Decision
from scheduler_ext.core.name_index import NameIndex
from scheduler_ext.core.policy import Policy
from scheduler_ext.core.request import GpuRequest
from scheduler_ext.core.snapshot import Snapshot
from scheduler_ext.core.table import build_snapshot

# Distinct requests; pods of any more are looked at again by kube-scheduler's own clock, within five minutes.
_REMEMBERED = 128


@dataclass(frozen=True, slots=True)
class _Refused:
    """When, and the rows of the nodes that were asked about."""

    at: float
    rows: Ints
    row_of: NameIndex


class Refusals:
    """The last requests that fitted nowhere. Safe to use from several threads."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._lock = Lock()
        self._refused: LRUCache[GpuRequest, _Refused] = LRUCache(_REMEMBERED)

    def remember(self, request: GpuRequest, rows: Ints, snapshot: Snapshot, now: float) -> None:
        """None of the nodes at these rows took it."""
        with self._lock:
            self._refused[request] = _Refused(now, rows, snapshot.row_of)

    def cured(self, snapshot: Snapshot, changed: Collection[str], since: float) -> set[str]:
        """Of the nodes that changed, one for each request refused since then that fits there now.

        A cured request is forgotten: its pods are asked about again, and remembered if that does not help.
        """
        with self._lock:
            waiting = [
                (request, refused) for request, refused in self._refused.items() if refused.at >= since
            ]
        nodes = {name: snapshot.nodes[name] for name in changed if name in snapshot.nodes}
        if not waiting or not nodes:
            return set()
        part = build_snapshot(nodes, snapshot.generation, within=snapshot)
        cures = set()
        for request, refused in waiting:
            verdict = Decision(request, part, self._policy).verdict[part.state_of[:-1]]
            fitting = [name for name, code in zip(part.nodes, verdict.tolist(), strict=True) if code == FITS]
            asked = set(refused.rows.tolist()) if refused.row_of is snapshot.row_of else None
            name = next((n for n in fitting if asked is None or snapshot.row_of[n] in asked), None)
            if name is not None:
                cures.add(name)
                with self._lock:
                    if self._refused.get(request) is refused:
                        del self._refused[request]
        return cures
