"""What pods usually ask: kinds of pods and how often each comes.

What the next pods will ask is not known; what the last ones asked is the best guess, and every score that
looks ahead looks at one value, a Workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TaskClass:
    """A kind of pod: ``gpus`` whole GPUs, ``shares_mib`` one GPU's memory each, ``mig`` instances by profile.

    ``cpu_milli`` in thousandths of a core; ``models`` are the ones it admits, by name or family, sorted; any
    where there are none.
    """

    cpu_milli: int = 0
    gpus: int = 0
    shares_mib: tuple[int, ...] = ()
    mig: tuple[tuple[str, int], ...] = ()
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workload:
    """How often each class comes; with ``unknown``, the part of pods about which nothing can be said, the
    parts sum to 1."""

    parts: Mapping[TaskClass, float] = field(default_factory=dict)
    unknown: float = 0.0

    @classmethod
    def of(cls, counts: Mapping[TaskClass, float], unknown: float = 0.0) -> Workload:
        """The workload of so many pods of each class, and so many that may ask anything."""
        total = sum(counts.values()) + unknown
        if total <= 0:
            return UNKNOWN
        parts = {task: count / total for task, count in counts.items() if count > 0}
        return cls(parts, unknown / total)

    def distance(self, other: Workload) -> float:
        """How much of the one would have to become something else to be the other, 0 to 1 (the total
        variation distance)."""
        tasks = self.parts.keys() | other.parts.keys()
        apart = sum(abs(self.parts.get(task, 0.0) - other.parts.get(task, 0.0)) for task in tasks)
        return (apart + abs(self.unknown - other.unknown)) / 2

    def top(self, part: float) -> Workload:
        """The commonest classes that make up ``part`` of the pods of which something is known; of equal ones
        the one that came first.

        Weng et al., "Beware of Fragmentation" (USENIX ATC'23), look at the first 95 per cent.
        """
        counts: dict[TaskClass, float] = {}
        covered, part = 0.0, part * sum(self.parts.values())
        for task, share in sorted(self.parts.items(), key=lambda item: -item[1]):
            # Sums of many small parts are not exact.
            if covered >= part - 1e-12:
                break
            counts[task] = share
            covered += share
        return Workload.of(counts, self.unknown)


# Nothing is known of what will be asked.
UNKNOWN = Workload(unknown=1.0)


class SeenPods:
    """The workload of the pods seen so far, of which the older count less: events in, a Workload out."""

    def __init__(self, half_life: float, unknown: float = 0.0, max_classes: int | None = None) -> None:
        """A pod counts half after ``half_life`` others; ``unknown`` pods that may have asked anything came
        before, as may those of the lightest classes, which are forgotten where there are more than
        ``max_classes``."""
        self._max_classes = max_classes
        self._growth = 2.0 ** (1.0 / half_life)
        self._counts: dict[TaskClass, float] = {}
        self._unknown = unknown
        # Instead of all counts shrinking with each pod, the next pod counts more.
        self._next = 1.0
        self.seen = 0

    def saw(self, task: TaskClass) -> None:
        """A pod of this class was created."""
        self.seen += 1
        self._next *= self._growth
        self._counts[task] = self._counts.get(task, 0.0) + self._next
        if self._max_classes is not None and len(self._counts) > self._max_classes * _SLACK:
            self._keep(self._max_classes)
        if self._next > _RESCALE_AT:
            self._rescale()

    def workload(self) -> Workload:
        """What is to be expected."""
        return Workload.of(self._counts, self._unknown)

    def _keep(self, classes: int) -> None:
        heaviest = sorted(self._counts.items(), key=lambda item: -item[1])
        self._unknown += sum(count for _, count in heaviest[classes:])
        kept = {task for task, _ in heaviest[:classes]}
        self._counts = {task: count for task, count in self._counts.items() if task in kept}

    def _rescale(self) -> None:
        # Who has not been seen for so long that nothing is left of it is forgotten.
        self._counts = {
            task: count / self._next
            for task, count in self._counts.items()
            if count / self._next > _FORGOTTEN
        }
        self._unknown /= self._next
        self._next = 1.0


_RESCALE_AT = 1e12
_FORGOTTEN = 1e-6
# The lightest classes are looked for when there are so many times too many, not with every pod.
_SLACK = 1.25
