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
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.node.columns import Bools, Ints
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.name_index import NameIndex
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot

# Distinct requests; kube-scheduler retries the pods of others by its own clock, within five minutes.
_REMEMBERED = 128


@dataclass(frozen=True, slots=True)
class _Refused:
    """The time of the refusal, and the rows of the requested nodes."""

    at: float
    rows: Ints
    # Weak, because it is only compared and would keep the names of removed nodes alive.
    row_of: ReferenceType[NameIndex]


class Refusals:
    """The last requests that fit nowhere. Safe to use from several threads."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._lock = Lock()
        self._refused: LRUCache[GpuRequest, _Refused] = LRUCache(_REMEMBERED)

    def remember(self, request: GpuRequest, rows: Ints, snapshot: Snapshot, now: float) -> None:
        """Note that none of the nodes at these rows accepted it."""
        with self._lock:
            self._refused[request] = _Refused(now, rows, ref(snapshot.row_of))

    def cured(self, snapshot: Snapshot, changed: Mapping[str, float]) -> list[str]:
        """A small set of changed nodes that together can host every previously refused request that now fits.
        kube-scheduler retries those pods that may fit on the very node of the event. A cured request is
        forgotten: its pods are requested again, and remembered if that does not help."""
        with self._lock:
            waiting = list(self._refused.items())
        nodes = {name: snapshot.nodes[name] for name in sorted(changed) if name in snapshot.nodes}
        if not waiting or not nodes:
            return []
        part = build_snapshot(nodes, snapshot.generation, within=snapshot)
        since = np.array([changed[name] for name in part.nodes])
        # [request, node]
        cures = np.array(
            [
                (filter_nodes(request, part, self._policy).verdict[part.state_of[:-1]] == FITS)
                & (refused.at >= since)
                & _asked(refused, snapshot, part)
                for request, refused in waiting
            ]
        )
        cured = np.any(cures, axis=1).tolist()
        with self._lock:
            for (request, refused), fits in zip(waiting, cured, strict=True):
                if fits and self._refused.get(request) is refused:
                    del self._refused[request]
        return [list(part.nodes)[row] for row in _covering(cures)]


def _asked(refused: _Refused, snapshot: Snapshot, part: Snapshot) -> Bools:
    """The requested nodes of a part of the snapshot; all if nodes were added or removed since."""
    if refused.row_of() is not snapshot.row_of:
        return np.ones(len(part.nodes), np.bool_)
    asked: Bools = np.isin(snapshot.rows(list(part.nodes)), refused.rows)
    return asked


def _covering(cures: Bools) -> list[int]:
    """A few nodes, by row, that cover every request that fits on any: the node that serves most first."""
    chosen = []
    left = cures[np.any(cures, axis=1)]
    while len(left):
        chosen.append(int(left.sum(axis=0).argmax()))
        left = left[~left[:, chosen[-1]]]
    return chosen
