"""Requests that no node accepted, and the changes that cure them. kube-scheduler retries a refused pod after
an event that it can see. For events that it cannot see (a GPU is healthy again, memory is free again) the
extender writes one, but only if that helps a waiting pod."""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from weakref import ReferenceType, ref

import numpy as np
from cachetools import LRUCache

from scheduler_ext.core.cycle.cycle import FITS, filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.node.columns import Bools, Floats, Ints
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.name_index import NameIndex
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot

# Distinct requests; kube-scheduler retries the pods of others by its own clock, within five minutes.
_REMEMBERED = 128


@dataclass(frozen=True, slots=True)
class _RefusalTimes:
    """When nodes last refused a request, `[row]`, and -inf at the end and where none did since its pods were
    woken. Pods with equal requests may be asked about different nodes."""

    at: Floats
    # Weak, because it is only compared and would keep the names of removed nodes alive.
    row_of: ReferenceType[NameIndex]

    def at_rows_of(self, snapshot: Snapshot) -> Floats:
        """The times by the rows of the snapshot; of all nodes the last one if nodes were added or removed
        since."""
        if self.row_of() is snapshot.row_of:
            return self.at
        return np.append(np.full(len(snapshot.row_of), self.at.max()), -np.inf)


class Refusals:
    """The last requests that fit nowhere. Safe to use from several threads."""

    def __init__(self, policy: SchedulingPolicy) -> None:
        self._policy = policy
        self._lock = Lock()
        self._refused: LRUCache[GpuRequest, _RefusalTimes] = LRUCache(_REMEMBERED)

    def remember(self, request: GpuRequest, rows: Ints, snapshot: Snapshot, now: float) -> None:
        """Note that none of the nodes at these rows accepted it; an unknown node is at row -1."""
        with self._lock:
            known = self._refused.get(request)
            if known is None:
                at = np.full(len(snapshot.row_of) + 1, -np.inf)
            else:
                at = known.at_rows_of(snapshot).copy()
            at[rows] = now
            at[-1] = -np.inf
            self._refused[request] = _RefusalTimes(at, ref(snapshot.row_of))

    def nodes_to_nudge(self, snapshot: Snapshot, changed: Mapping[str, float]) -> list[str]:
        """A small set of changed nodes that together can host every previously refused request that now fits.
        kube-scheduler retries those pods that may fit on the very node of the event. A cured refusal is
        forgotten on all nodes: its pods are requested again, and remembered if that does not help. An older
        or newer one of an equal request stays, because its pod may be kept from the node of the event."""
        with self._lock:
            waiting = list(self._refused.items())
        nodes = {name: snapshot.nodes[name] for name in sorted(changed) if name in snapshot.nodes}
        if not waiting or not nodes:
            return []
        part = build_snapshot(nodes, snapshot.generation, within=snapshot)
        since = np.array([changed[name] for name in part.nodes])
        rows = snapshot.rows(list(part.nodes))
        cures: list[Bools] = []
        for request, refused in waiting:
            times = refused.at_rows_of(snapshot)
            at = times[rows]
            fits = filter_nodes(request, part, self._policy).verdict[part.state_of[:-1]] == FITS
            fits &= (at >= since) & np.isfinite(at)
            cured = np.unique(at[fits])
            if len(cured):
                cures += [fits & (at == time) for time in cured]
                left = np.where(np.isin(times, cured), -np.inf, times)
                self._replace(request, refused, _RefusalTimes(left, ref(snapshot.row_of)))
        return [list(part.nodes)[row] for row in _covering(np.array(cures))] if cures else []

    def _replace(self, request: GpuRequest, known: _RefusalTimes, left: _RefusalTimes) -> None:
        with self._lock:
            if self._refused.get(request) is not known:
                return
            if np.isfinite(left.at).any():
                self._refused[request] = left
            else:
                del self._refused[request]


def _covering(cures: Bools) -> list[int]:
    """A few nodes, by row, that cover every refusal; each fits on some. The node that serves most first."""
    chosen = []
    left = cures
    while len(left):
        chosen.append(int(left.sum(axis=0).argmax()))
        left = left[~left[:, chosen[-1]]]
    return chosen
