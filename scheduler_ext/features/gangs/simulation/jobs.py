"""The jobs of a simulation with gangs: a pod alone, or the pods of a gang, drawn from the pods of a trace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.request.gang_request import GangKey, GangRequest
from scheduler_ext.features.gangs.planning.gang import Gang, Member, MemberState, gangs_of
from scheduler_ext.sim.trace_workload import PodKind, TracePod

# How the pods of a gang start: each alone, as kube-scheduler does, or together by the planner; and together,
# with a stated duration of every job.
ALONE, TOGETHER, TIMED = "alone", "together", "timed"
STARTS = (ALONE, TOGETHER, TIMED)
# A gang of each size requests the same demand in the mean.
SIZES = range(2, 17)
_SIZE_PARTS = np.array([1 / size for size in SIZES]) / sum(1 / size for size in SIZES)
# A stated duration is so many times the real one, evenly drawn.
_OVERSTATED = (1.0, 3.0)
SINGLE = "single"
# Classes of sizes in reports, by their largest size.
_CLASSES: Mapping[int, str] = {2: "2", 4: "3-4", 8: "5-8", 16: "9-16"}
_LARGER = "17 and more"
CLASSES = (SINGLE, *_CLASSES.values(), _LARGER)


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSettings:
    """`percent` of the offered demand is requested by gangs; None: the gangs are those of the trace. `start`
    is one of STARTS. A gang whose pods start alone gives up after `patience` mean lifetimes from the start of
    its first pod, and begins again behind all others."""

    percent: float | None
    start: str = TOGETHER
    patience: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class JobPod:
    """A pod of a job."""

    uid: str
    job: "Job"
    pod: TracePod

    @property
    def kind(self) -> PodKind:
        return self.pod.kind

    @property
    def priority(self) -> int:
        return self.job.priority


@dataclass(frozen=True, eq=False)
class Job:
    """Pods that arrived at one time, in mean lifetimes, and run for one time once all of them have started.
    `stated` is the duration that they state, at least the real one; None for none."""

    number: int
    trace_pods: tuple[TracePod, ...]
    arrived: float
    runs: float
    stated: float | None = None

    @cached_property
    def pods(self) -> tuple[JobPod, ...]:
        """The pods of the job."""
        return tuple(JobPod(f"{self.number}-{i}", self, pod) for i, pod in enumerate(self.trace_pods))

    @property
    def is_gang(self) -> bool:
        return len(self.trace_pods) > 1

    @cached_property
    def priority(self) -> int:
        return min(pod.priority for pod in self.trace_pods)

    @property
    def key(self) -> GangKey | None:
        """Of a gang; None for a pod alone."""
        return GangKey("", "gang", f"{self.number:09}") if self.is_gang else None

    @property
    def demand_milli(self) -> int:
        return sum(pod.kind.demand_milli for pod in self.trace_pods)

    @property
    def size_class(self) -> str:
        """Its class in reports, one of CLASSES."""
        size = len(self.trace_pods)
        return (
            next((name for most, name in _CLASSES.items() if size <= most), _LARGER) if size > 1 else SINGLE
        )

    @cached_property
    def gang(self) -> Gang[JobPod]:
        """The gang before it begins, as the planner has it."""
        gang_request = GangRequest(self.key or GangKey("", "pod", f"{self.number:09}"), len(self.trace_pods))
        members = (
            Member(
                each.uid,
                each,
                MemberState.GATED,
                priority=each.priority,
                created_at=self.arrived,
                max_duration_s=self.stated,
                kind=each.kind,
            )
            for each in self.pods
        )
        return gangs_of((gang_request, member) for member in members)[0]


class Jobs:
    """Draws jobs. A trace's own gangs are drawn whole; otherwise a gang has equal pods, as one of the trace
    with whole GPUs. Raises SimulationError if the trace has neither."""

    def __init__(self, pods: Sequence[TracePod], settings: GangSettings) -> None:
        self._timed = settings.start == TIMED
        self._drawn = 0
        self._units: list[tuple[TracePod, ...]] = [(pod,) for pod in pods]
        self._members: list[TracePod] = []
        self._gang_part = 0.0
        if settings.percent is None:
            self._units = _groups(pods)
        elif settings.percent > 0:
            self._members = [pod for pod in pods if pod.kind.gpus and not pod.kind.is_share]
            if not self._members:
                raise SimulationError("gangs: no pod requests whole GPUs; members of gangs are such pods")
            self._gang_part = self._part_of_jobs(settings.percent / 100)

    @property
    def mean_milli(self) -> float:
        """The mean demand of a job."""
        return self._gang_part * self._gang_milli() + (1 - self._gang_part) * _mean_milli(self._units)

    def draw(self, now: float, random: np.random.Generator) -> Job:
        """The next job. All is drawn for any settings, so that the same jobs arrive for each of them."""
        is_gang, size = random.random() < self._gang_part, int(random.choice(SIZES, p=_SIZE_PARTS))
        runs, overstated = random.exponential(), random.uniform(*_OVERSTATED)
        drawn: tuple[TracePod, ...]
        if is_gang:
            drawn = (self._members[int(random.integers(len(self._members)))],) * size
        else:
            drawn = self._units[int(random.integers(len(self._units)))]
        self._drawn += 1
        return Job(self._drawn, drawn, now, runs, runs * overstated if self._timed else None)

    def _part_of_jobs(self, part_of_demand: float) -> float:
        """The part of the jobs that are gangs, if gangs have this part of the demand."""
        gangs = part_of_demand / self._gang_milli()
        singles = (1 - part_of_demand) / _mean_milli(self._units)
        return gangs / (gangs + singles)

    def _gang_milli(self) -> float:
        if not self._members:
            return 0.0
        size = float(np.dot(_SIZE_PARTS, SIZES))
        return size * _mean_milli([(pod,) for pod in self._members])


def _groups(pods: Sequence[TracePod]) -> list[tuple[TracePod, ...]]:
    """The gangs of a trace, and its pods without one."""
    groups: dict[str, list[TracePod]] = {}
    for number, pod in enumerate(pods):
        groups.setdefault(f"gang {pod.gang}" if pod.gang else f"pod {number}", []).append(pod)
    if all(len(group) == 1 for group in groups.values()):
        raise SimulationError(
            "gangs of the trace: it has none (column gang of --pods, jobs on several servers of Philly); "
            "give a part in per cent, such as --gangs 30"
        )
    return [tuple(group) for group in groups.values()]


def _mean_milli(units: Sequence[tuple[TracePod, ...]]) -> float:
    return sum(pod.kind.demand_milli for unit in units for pod in unit) / len(units)
