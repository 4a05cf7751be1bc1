"""Events on the pods of gangs: a start, a wait with its reason, an eviction. The same Event is written once
in ten minutes, and one whose text changes again and again ever more seldom."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cachetools import TTLCache

from scheduler_ext.cluster.events.event_recorder import WriteEvent, event_body
from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.features.gangs.live.gang_calls import PodReference

STARTING = "GPUGangStarting"
WAITING = "GPUGangWaiting"
EVICTED = "GPUGangEvicted"
NOT_EVICTED = "GPUGangNotEvicted"
NOT_STARTING = "GPUGangNotStarting"

_EVERY_S = 600.0
# After the second text of an Event, the next one waits so long, and each further one twice as long. What a
# gang lacks changes with each pod that comes or goes.
_CHANGED_S = 10.0
# The first pods of a gang have its Events; a gang of a thousand would use up all others' share.
_PODS = 16


@dataclass(frozen=True, slots=True)
class _LastEvent:
    """The last text of an Event, the time of its next one, and the wait before that."""

    note: str
    next_at: float
    wait_s: float


class GangEvents:
    """For one thread. `write` takes a function that makes the Event when it is written."""

    def __init__(self, write: WriteEvent, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._monotonic = monotonic
        self._last_events: TTLCache[tuple[GangKey, str], _LastEvent] = TTLCache(5000, _EVERY_S, monotonic)

    def starting(self, gang: GangKey, pods: Sequence[PodReference], size: int) -> None:
        """The gates of these pods went."""
        self._say(gang, STARTING, "Normal", f"all {size} members of gang {gang} have places", pods)

    def waiting(
        self, gang: GangKey, pods: Sequence[PodReference], reason: str, *, invalid: bool = False
    ) -> None:
        """These pods stay behind their gates."""
        kind = "Warning" if invalid else "Normal"
        self._say(gang, WAITING, kind, f"gang {gang} waits: {reason}", pods)

    def invalid(self, pod: PodReference, reason: str) -> None:
        """The gang of a pod cannot be read."""
        self._say(GangKey(pod.namespace, "pod", pod.name), WAITING, "Warning", reason, (pod,))

    def evicted(self, gang: GangKey, pods: Sequence[PodReference], reason: str) -> None:
        """These pods were evicted for a gang, which may be their own."""
        self._say(gang, EVICTED, "Warning", reason, pods, again=True)

    def not_evicted(self, gang: GangKey, pods: Sequence[PodReference], reason: str) -> None:
        """A gang that was to be evicted, or that needs evictions, is held up."""
        self._say(gang, NOT_EVICTED, "Warning", reason, pods)

    def not_starting(self, gang: GangKey, pods: Sequence[PodReference], reason: str) -> None:
        """The gates of these pods should have gone."""
        self._say(gang, NOT_STARTING, "Warning", reason, pods)

    def not_starting_alone(self, pod: PodReference, reason: str) -> None:
        """The same for a pod that needs no place with others."""
        self.not_starting(GangKey(pod.namespace, "pod", pod.name), (pod,), reason)

    def _say(
        self,
        gang: GangKey,
        reason: str,
        kind: str,
        note: str,
        pods: Sequence[PodReference],
        *,
        again: bool = False,
    ) -> None:
        now, last = self._monotonic(), self._last_events.get((gang, reason))
        if last is not None and not again and (last.note == note or now < last.next_at):
            return
        wait_s = min(_EVERY_S / 2, 2 * last.wait_s or _CHANGED_S) if last is not None else 0.0
        self._last_events[gang, reason] = _LastEvent(note, now + wait_s, wait_s)
        for pod in pods[:_PODS]:
            regarding = {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
            self._write(lambda about=regarding: event_body(kind, reason, "Gang", note, about))  # type: ignore[misc]
