"""How often pods start within the interval that was estimated for them.

    python -m benchmarks.queue_estimates --seeds 0-19

A simulated cluster of nodes with eight GPUs gets pods at random; those that do not fit wait, and later ones
may overtake them. Run times are log-normal, with another median for each workload. At random times the
queue is estimated from what was observed until then, and compared with what came. Intervals are stated to
hold 80 of 100 starts."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from scheduler_ext.features.gangs.queue.estimate import WITHIN, StartEstimate, estimates
from scheduler_ext.features.gangs.queue.room import Arrivals, RunningPod, Waiter
from scheduler_ext.features.gangs.queue.run_times import PastRuns, PodRun, RunKind

_NODES, _GPUS = 8, 8
_SIZES = (1, 1, 1, 2, 2, 4, 8, 8)
_SIGMA = 1.2
_SETTINGS: dict[str, dict[str, Any]] = {
    "load 95 %": {"load": 0.95},
    "load 110 %": {"load": 1.1},
    "load 80 % in bursts of 6": {"load": 0.8, "burst": 6},
}


class Waiting(NamedTuple):
    number: int
    workload: int


class Outcome(NamedTuple):
    """An estimate, and after how many seconds the pod started."""

    estimate: StartEstimate
    waited_s: float


@dataclass
class Trace:
    """One simulated cluster: the queue is estimated from the pod `warm_up` to the pod `last`, and pods arrive
    for long enough after it."""

    seed: int
    load: float
    burst: int = 1
    pods: int = 1500
    warm_up: int = 300
    last: int = 1000
    now: float = 0.0
    free: list[int] = field(default_factory=lambda: [_GPUS] * _NODES)
    running: list[tuple[float, int, int, int, float]] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    arrived: list[tuple[float, int]] = field(default_factory=list)
    past: PastRuns = field(default_factory=lambda: PastRuns(0.0, 10_000))
    made: dict[int, list[tuple[float, StartEstimate]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.medians = np.exp(self.random.normal(6, 0.7, len(_SIZES)))
        self.kinds = [RunKind("ns", f"Job/{index}", size) for index, size in enumerate(_SIZES)]
        mean = np.mean(np.array(_SIZES) * self.medians) * np.exp(_SIGMA**2 / 2)
        self.gap = float(mean) / (_NODES * _GPUS * self.load) * self.burst

    def outcomes(self) -> Iterator[Outcome]:
        """The estimates of the queue at random times, with what came."""
        arrives = self.random.exponential(self.gap)
        looks = self.gap * self.warm_up / self.burst
        while len(self.arrived) < self.pods or self.made:
            coming = arrives if len(self.arrived) < self.pods else float("inf")
            ends = self.running[0][0] if self.running else float("inf")
            self.now = min(coming, ends, looks)
            if self.now == ends:
                self._end()
            elif self.now == coming:
                self._arrive()
                arrives += self.random.exponential(self.gap)
            else:
                looks = self.now + self.random.exponential(self.gap * 40 / self.burst)
                if len(self.arrived) < self.last:
                    self._estimate()
                else:
                    looks = float("inf")
            yield from self._start_all()

    def _end(self) -> None:
        _, _, workload, node, started = heappop(self.running)
        self.free[node] += _SIZES[workload]
        self.past.ended(PodRun(self.kinds[workload], started, self.now))

    def _arrive(self) -> None:
        for _ in range(self.burst):
            workload = int(self.random.integers(len(_SIZES)))
            self.waiting.append(Waiting(len(self.arrived), workload))
            self.arrived.append((self.now, workload))

    def _start_all(self) -> Iterator[Outcome]:
        for each in list(self.waiting):
            size = _SIZES[each.workload]
            takers = [node for node in range(_NODES) if self.free[node] >= size]
            if takers:
                node = min(takers, key=self.free.__getitem__)
                self.free[node] -= size
                self.waiting.remove(each)
                runs_s = self.random.lognormal(np.log(self.medians[each.workload]), _SIGMA)
                heappush(self.running, (self.now + runs_s, each.number, each.workload, node, self.now))
                for at, estimate in self.made.pop(each.number, ()):
                    yield Outcome(estimate, self.now - at)

    def _estimate(self) -> None:
        if not self.waiting:
            return
        holders = [
            RunningPod(str(node), (_SIZES[workload],), self.kinds[workload], self.now - started)
            for _, _, workload, node, started in self.running
        ]
        running = [PodRun(self.kinds[workload], started) for _, _, workload, _, started in self.running]
        recent = self.arrived[-300:]
        found = estimates(
            {str(node): (free,) for node, free in enumerate(self.free)},
            holders,
            [self._waiter(each.workload) for each in self.waiting],
            self.past.distributions(running, self.now),
            Arrivals([self._waiter(workload) for _, workload in recent], self.now - recent[0][0]),
        )
        for each, estimate in zip(self.waiting, found, strict=True):
            self.made.setdefault(each.number, []).append((self.now, estimate))

    def _waiter(self, workload: int) -> Waiter:
        return Waiter(((_SIZES[workload],),), frozenset(map(str, range(_NODES))), self.kinds[workload])


def _summary(outcomes: list[Outcome]) -> str:
    known = [each for each in outcomes if each.estimate.unknown is None]
    early = np.mean([each.waited_s < (each.estimate.earliest_s or 0) for each in known])
    late = np.mean([each.waited_s > (each.estimate.latest_s or 0) + 1e-6 for each in known])
    return (
        f"{len(outcomes):6,} estimates, {100 * len(known) / len(outcomes):3.0f} % known: "
        f"{100 * (1 - early - late):3.0f} % within (stated: {100 * WITHIN:.0f} %), "
        f"{100 * early:2.0f} % earlier, {100 * late:2.0f} % later"
    )


def main() -> None:
    """Print the share of starts within their interval."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", default="0-19", help="first and last seed")
    first, last = map(int, parser.parse_args().seeds.split("-"))
    for name, settings in _SETTINGS.items():
        outcomes = [each for seed in range(first, last + 1) for each in Trace(seed, **settings).outcomes()]
        print(f"{name:26} {_summary(outcomes)}", flush=True)


if __name__ == "__main__":
    main()
