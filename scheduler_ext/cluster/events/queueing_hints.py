"""Which changes of nodes make room for rejected pods, so that kube-scheduler has to be nudged."""

import time
from collections.abc import Callable, Iterable, Mapping

from scheduler_ext.core.cache.ledger import Cause
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.refusals import Refusals

# The least time between two checks whether changes help rejected pods.
EVERY_S = 1.0
# kube-scheduler may see a release before this extender, ask, and be refused; a nudge follows when the release
# is known here. A watch may be this late after a restart of the API server.
_BEHIND_S = 45.0
_INVISIBLE = Cause.REPORT | Cause.AGE | Cause.PROMISE


class QueueingHints:
    """Follows changes in one thread; `nudge` tells kube-scheduler of a node, while `active`."""

    def __init__(self, refusals: Refusals, active: Callable[[], bool], nudge: Callable[[str], None]) -> None:
        self._refusals, self._active, self._nudge = refusals, active, nudge
        # By node: pods rejected since this time may fit after the change of the node.
        self._changed: dict[str, float] = {}
        self._looked_at: dict[str, float] = {}
        self._checked_at = 0.0

    def left(self, nodes: Iterable[str]) -> None:
        """Room that was held on these nodes is held no longer."""
        _earliest(self._changed, dict.fromkeys(nodes, 0.0))

    def follow(self, changes: Mapping[str, Cause], arrived_at: float, snapshot: Snapshot | None) -> None:
        """Nudge kube-scheduler if a change makes room for a rejected pod; the first one arrived then."""
        behind = arrived_at - _BEHIND_S
        since = {name: 0.0 if cause & _INVISIBLE else behind for name, cause in changes.items()}
        _earliest(self._changed, since)
        now = time.monotonic()
        idle = not (self._changed or self._looked_at)
        if idle or snapshot is None or now - self._checked_at < EVERY_S:
            return
        self._checked_at = now
        # Each change is checked twice: a request that decides on the snapshot before it may fail later.
        pending, latest = self._looked_at, self._changed
        self._looked_at, self._changed = dict(latest), {}
        _earliest(pending, latest)
        if self._active():
            for name in self._refusals.nodes_to_nudge(snapshot, pending):
                self._nudge(name)


def _earliest(into: dict[str, float], times: Mapping[str, float]) -> None:
    for name, since in times.items():
        into[name] = min(into.get(name, since), since)
