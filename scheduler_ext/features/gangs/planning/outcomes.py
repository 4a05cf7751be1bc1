"""What became of nominations, and when a pod whose nomination had no effect is planned again."""

from collections.abc import Container
from dataclasses import dataclass, field

from scheduler_ext.features.gangs.planning.meaning_enum import MeaningEnum

# The wait after the first failure; it doubles with each further one of the same pod.
_FIRST_S = 2.0
_LONGEST_S = 300.0


class Outcome(MeaningEnum):
    """The end of a nomination; `meaning` is a sentence."""

    BOUND = "bound", "The pod was bound where it was planned."
    ELSEWHERE = "elsewhere", "The pod was bound to another node."
    MISFIT = "misfit", "kube-scheduler, or this extender, refused the pod on its planned node."
    EXPIRED = "expired", "The pod was not tried in time."
    CONFLICT = "conflict", "Another component had nominated the pod, or it was another pod of that name."
    FAILED = "failed", "The nomination could not be written."
    WITHDRAWN = "withdrawn", "The place was given up, for a gang of higher priority or because it was lost."
    DELETED = "deleted", "The pod was deleted before it was bound."


# After these the pod is not planned again at once.
BACKING_OFF = (Outcome.ELSEWHERE, Outcome.MISFIT, Outcome.EXPIRED, Outcome.CONFLICT, Outcome.FAILED)


@dataclass(slots=True)
class _Pause:
    failures: int = 0
    until: float = 0.0
    reason: str = ""


@dataclass(slots=True)
class Pauses:
    """The waits of pods, by uid. Times are monotonic."""

    _by_uid: dict[str, _Pause] = field(default_factory=dict)

    def failed(self, uid: str, outcome: Outcome, now: float) -> None:
        """A nomination of a pod had no effect."""
        pause = self._by_uid.setdefault(uid, _Pause())
        pause.until = now + min(_LONGEST_S, _FIRST_S * 2.0 ** min(pause.failures, 30))
        pause.failures += 1
        pause.reason = outcome.meaning.rstrip(".")

    def waits(self, uid: str, now: float) -> bool:
        """Whether a pod is not planned now."""
        pause = self._by_uid.get(uid)
        return pause is not None and now < pause.until

    def reason(self, uid: str) -> str:
        """Why a pod waits."""
        return self._by_uid[uid].reason

    def next_end(self, now: float) -> float | None:
        """When the next wait ends; None without any."""
        return min((pause.until for pause in self._by_uid.values() if pause.until > now), default=None)

    def keep(self, uids: Container[str]) -> None:
        """All other pods are bound or gone."""
        self._by_uid = {uid: pause for uid, pause in self._by_uid.items() if uid in uids}
