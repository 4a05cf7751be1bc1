"""What this extender wrote on pods of gangs and the watch does not show yet: without it, the next step would
decide on the state before."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from scheduler_ext.features.gangs.planning.gang import MemberState
from scheduler_ext.features.gangs.wire.gang_pod import GangPod

# A watch is later than this only when it is broken, and then the cluster decides.
_LATE_S = 5.0


@dataclass(slots=True)
class _OwnWrite:
    until: float
    nominated: str | None = None
    deadline: float | None = None
    has_place: bool = False
    lifted: bool = False
    gone: bool = False


class OwnWrites:
    """For one thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._by_uid: dict[str, _OwnWrite] = {}

    def _of(self, uid: str) -> _OwnWrite:
        found = self._by_uid.setdefault(uid, _OwnWrite(0.0))
        found.until = self._monotonic() + _LATE_S
        return found

    def placed(self, uid: str, node: str | None, deadline: float | None) -> None:
        """The nomination and the deadline of a pod were written."""
        found = self._of(uid)
        found.has_place, found.nominated, found.deadline = True, node, deadline

    def lifted(self, uid: str) -> None:
        """The gate of a pod was removed."""
        self._of(uid).lifted = True

    def gone(self, uid: str) -> None:
        """A pod was evicted."""
        self._of(uid).gone = True

    def is_gone(self, uid: str) -> bool:
        """Whether a pod was evicted a moment ago."""
        found = self._by_uid.get(uid)
        return found is not None and found.gone

    def over(self, pods: Iterable[GangPod]) -> list[GangPod]:
        """The pods as they are after these writes."""
        now = self._monotonic()
        self._by_uid = {uid: each for uid, each in self._by_uid.items() if each.until > now}
        return [self._after(pod) for pod in pods]

    def _after(self, pod: GangPod) -> GangPod:
        written = self._by_uid.get(pod.uid)
        if written is None or pod.state is None or pod.state is MemberState.DONE:
            return pod
        if written.gone:
            return replace(pod, state=None)
        if pod.state is MemberState.BOUND:
            return replace(pod, deadline=written.deadline) if written.has_place else pod
        if written.has_place:
            pod = replace(pod, nominated=written.nominated, deadline=written.deadline)
        if written.lifted and pod.state is MemberState.GATED:
            pod = replace(pod, state=MemberState.WAITING, gates=())
        return pod
