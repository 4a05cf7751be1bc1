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
    """How often each class comes, as parts that sum to 1; empty when nothing is known."""

    parts: Mapping[TaskClass, float] = field(default_factory=dict)

    @classmethod
    def of(cls, counts: Mapping[TaskClass, float]) -> Workload:
        """The workload of so many pods of each class."""
        total = sum(counts.values())
        return cls({task: count / total for task, count in counts.items() if count > 0})

    def top(self, part: float) -> Workload:
        """The commonest classes that make up ``part`` of all pods, by themselves; of equal ones the one that
        came first.

        Weng et al., "Beware of Fragmentation" (USENIX ATC'23), look at the first 95 per cent.
        """
        counts: dict[TaskClass, float] = {}
        covered = 0.0
        for task, share in sorted(self.parts.items(), key=lambda item: -item[1]):
            # Sums of many small parts are not exact.
            if covered >= part - 1e-12:
                break
            counts[task] = share
            covered += share
        return Workload.of(counts)


class SeenPods:
    """The workload of the pods seen so far, of which the older count less: events in, a Workload out."""

    def __init__(self, half_life: float, prior: Workload | None = None, prior_pods: float = 0.0) -> None:
        """A pod counts half after ``half_life`` others; ``prior`` is believed as if that many pods had asked
        so before."""
        self._growth = 2.0 ** (1.0 / half_life)
        self._counts: dict[TaskClass, float] = {
            task: part * prior_pods for task, part in (prior.parts if prior is not None else {}).items()
        }
        # Instead of all counts shrinking with each pod, the next pod counts more.
        self._next = 1.0
        self.seen = 0

    def saw(self, task: TaskClass) -> None:
        """A pod of this class was created."""
        self.seen += 1
        self._next *= self._growth
        self._counts[task] = self._counts.get(task, 0.0) + self._next
        if self._next > _RESCALE_AT:
            self._rescale()

    def workload(self) -> Workload:
        """What is to be expected."""
        return Workload.of(self._counts)

    def _rescale(self) -> None:
        # Who has not been seen for so long that nothing is left of it is forgotten.
        self._counts = {
            task: count / self._next
            for task, count in self._counts.items()
            if count / self._next > _FORGOTTEN
        }
        self._next = 1.0


_RESCALE_AT = 1e12
_FORGOTTEN = 1e-6
