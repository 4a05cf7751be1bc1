"""How long pods held GPUs: the basis for how long others will. The number of remembered runs is bounded."""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from scheduler_ext.features.gangs.queue.survival import ObservedRun, Survival

# Runs longer than the present age of a pod, so that one that outlasts all of them is rarer than one in ten
# (survival.py): without them, the wider comparison is tried.
ENOUGH = 9


@dataclass(frozen=True, slots=True)
class RunKind:
    """What makes the run times of two pods comparable. `owner` is the workload as KIND/NAME, "" without one;
    `asked` is the kind of request."""

    namespace: str
    owner: str
    asked: Hashable

    def comparisons(self) -> Iterator[Hashable]:
        """Keys that comparable pods share, the closest comparison first, all with equal requests: pods of one
        workload; of one kind of workload in the namespace (Jobs have another name with each run); of one
        kind in all namespaces."""
        controller = self.owner.partition("/")[0]
        if self.owner:
            yield self.namespace, self.owner, self.asked
        yield self.namespace, controller, self.asked
        yield controller, self.asked


class PodRun(NamedTuple):
    """One pod's time on its node, in seconds of wall time; `ended_at` None: it is still there."""

    kind: RunKind
    started_at: float
    ended_at: float | None = None


class PastRuns:
    """The last runs that ended, since `since`: all that ended from then on are known. One thread at a
    time."""

    def __init__(self, since: float, most: int) -> None:
        self._runs: deque[PodRun] = deque()
        self._most = most
        self.since = since

    def __len__(self) -> int:
        return len(self._runs)

    def ended(self, run: PodRun) -> None:
        """Remember a run; the oldest is forgotten."""
        self._runs.append(run)
        if len(self._runs) > self._most:
            dropped = self._runs.popleft()
            self.since = max(self.since, dropped.ended_at or self.since)

    def runs(self) -> tuple[PodRun, ...]:
        """The runs, the oldest first."""
        return tuple(self._runs)

    def copy(self) -> "PastRuns":
        """The same runs, for another thread."""
        copied = PastRuns(self.since, self._most)
        copied._runs = self._runs.copy()
        return copied

    def distributions(self, running: Iterable[PodRun], now: float) -> "RunTimes":
        """How long pods run, from these and from the pods that are `running` now."""
        observed: dict[Hashable, list[ObservedRun]] = {}
        for run in (*self._runs, *running):
            ended_at = now if run.ended_at is None else run.ended_at
            seen = ObservedRun(
                from_age_s=max(0.0, self.since - run.started_at),
                to_age_s=max(0.0, ended_at - run.started_at),
                ended=run.ended_at is not None,
            )
            for key in run.kind.comparisons():
                observed.setdefault(key, []).append(seen)
        return RunTimes(observed)


class RunTimes:
    """The distributions of run times by what makes pods comparable."""

    def __init__(self, observed: dict[Hashable, list[ObservedRun]]) -> None:
        self._observed = observed
        self._known: dict[Hashable, Survival] = {}

    def best(self, kind: RunKind, age_s: float) -> Survival:
        """The closest comparison with ENOUGH runs that were longer than `age_s`; else the widest one."""
        found = None
        for key in kind.comparisons():
            found = self._survival(key)
            if found.longer_than(age_s) >= ENOUGH:
                return found
        assert found is not None
        return found

    def _survival(self, key: Hashable) -> Survival:
        if key not in self._known:
            self._known[key] = Survival(self._observed.get(key, ()))
        return self._known[key]
