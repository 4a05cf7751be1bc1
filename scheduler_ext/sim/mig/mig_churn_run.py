"""MIG churn: pods that request one instance each arrive and leave; a pod that does not fit leaves at once.
Arrivals are Poisson, lifetimes exponential with mean 1. The offered load is the mean number of slices in use
if every pod were accepted, over all slices. Acceptance is weighted by slices: counting requests would reward
a policy that starves the large ones. A slice is a unit of the placement grid. With a sample of the nodes,
kube-scheduler knows the free slices of each node. A pod that fits, but on no examined node, waits: it is
tried whenever a pod has come or left, and its lifetime begins later."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.cache.observed_demand import HALF_LIFE_PODS, UNKNOWN_PODS
from scheduler_ext.core.forecast.mig_value import expected_mix, mix_of
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import media_conflict, window
from scheduler_ext.core.request.pod_kinds import RecentWorkload, TaskClass
from scheduler_ext.sim.mig.mig_policies import MIG_POLICIES, MigPolicy, PerGpu
from scheduler_ext.sim.sampling import Sampling
from scheduler_ext.sim.simulation_report import Run

# From empty GPUs to the steady state: after so many lifetimes, less than 0.1 per cent of the start remains.
WARM_UP_LIFETIMES = 7.0
# On 100 GPUs of eight slices at load 1.0, the mean over ten seeds has a standard error below 0.1 points.
ARRIVALS = 300_000
TARGETS = ("mix", "online")
# The first pods change the forecast much, later ones little; the tables are not rebuilt for every pod.
_FIRST_UPDATE_PODS = 16
_UPDATE_GROWTH = 1.25
_LONGEST_WAIT_PODS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class MigChurn:
    """One experiment, for several policies and seeds. `mix` is by profile name; `arrivals` count after
    the warm-up. `target` is the policies' knowledge: the `mix` itself, or `online`, the pods that have
    arrived. `sampled_percent` of the nodes suffice, as in Sampling; 100 is all."""

    geometry: Geometry
    mix: Mapping[str, float]
    trace: str
    gpus: int = 100
    gpus_per_node: int = 8
    sampled_percent: int = 100
    load: float = 1.0
    arrivals: int = ARRIVALS
    target: str = "mix"


@dataclass(frozen=True, slots=True)
class _Requests:
    """The requests `[request]`, times in mean lifetimes; the first `warm_up` do not count."""

    profile: npt.NDArray[np.int64]
    arrives: npt.NDArray[np.float64]
    lifetime: npt.NDArray[np.float64]
    warm_up: int


def run_mig_churn(churn: MigChurn, policy: str, seed: int) -> Run:
    """One policy on the requests of one seed; these are equal for all policies."""
    known = churn.mix if churn.target == "mix" else {}
    placer = MIG_POLICIES[policy](churn.geometry, known)
    online = OnlineTarget(placer.retarget, churn.geometry) if churn.target == "online" else None
    requests = _requests(churn, seed)
    play = _Play(churn, requests, placer)
    play.run(online)
    profiles = churn.geometry.profiles
    counted = slice(requests.warm_up, None)
    asked, given, waits = requests.profile[counted], play.accepted[counted], play.waits[counted]
    sizes = np.array([profile.size for profile in profiles])[asked]
    arrived, allocated = int(sizes.sum()), int(sizes[given].sum())
    rejected = {
        profile.name: 1000 * profile.size * int(((asked == index) & ~given & ~waits).sum())
        for index, profile in enumerate(profiles)
    }
    latencies_ns = np.array(play.latencies_ns)
    sampled = churn.sampled_percent < 100
    return Run(
        trace=churn.trace,
        policy=policy,
        seed=seed,
        mean_allocation_percent=100 * play.mean_held / (churn.gpus * churn.geometry.grid),
        slice_acceptance_percent=100 * allocated / arrived,
        whole_nodes_free=play.mean_whole_nodes,
        arrived_milli=1000 * arrived,
        allocated_milli=1000 * allocated,
        rejected_milli=sum(rejected.values()),
        waiting_milli=1000 * int(sizes[waits].sum()) if sampled else None,
        rejected_by_class={name: milli for name, milli in rejected.items() if milli},
        false_refusals=play.false_refusals if sampled else None,
        tries_per_pod=len(latencies_ns) / len(requests.profile) if sampled else None,
        most_tries=max(play.tries.values(), default=1) if sampled else None,
        decisions_per_second=1e9 * len(latencies_ns) / float(latencies_ns.sum()),
        p99_ms=float(np.percentile(latencies_ns, 99)) / 1e6,
    )


def _requests(churn: MigChurn, seed: int) -> _Requests:
    parts = mix_of(churn.geometry, churn.mix)
    sizes = np.array([profile.size for profile in churn.geometry.profiles])
    per_lifetime = churn.load * churn.gpus * churn.geometry.grid / float(parts @ sizes)
    warm_up = int(WARM_UP_LIFETIMES * per_lifetime)
    count = warm_up + churn.arrivals
    rng = np.random.default_rng(seed)
    profile = rng.choice(len(parts), size=count, p=parts)
    arrives = rng.exponential(1 / per_lifetime, count).cumsum()
    return _Requests(profile, arrives, rng.exponential(1.0, count), warm_up)


class _Play:
    """The GPUs in the course of the requests, what became of these, and means after the warm-up."""

    def __init__(self, churn: MigChurn, requests: _Requests, policy: MigPolicy) -> None:
        self._requests, self._policy = requests, policy
        self._sizes = [profile.size for profile in churn.geometry.profiles]
        self._gpus = MigGpus(churn.geometry, churn.gpus, churn.gpus_per_node)
        self._sampling: Sampling | None = None
        if churn.sampled_percent < 100:
            self._sampling = Sampling(np.arange(len(self._gpus.free_units)), churn.sampled_percent)
        self._ends: list[tuple[float, int, int, int]] = []
        self.accepted = np.zeros(len(requests.profile), np.bool_)
        self.waits = self.accepted.copy()
        self.latencies_ns: list[int] = []
        self.false_refusals = 0
        # Of the requests that have waited, by number.
        self.tries: dict[int, int] = {}
        self._waiting: list[int] = []
        self._since = float(requests.arrives[requests.warm_up])
        self._held, self._whole_nodes = 0.0, 0.0

    def run(self, online: OnlineTarget | None) -> None:
        """All requests arrive, and leave up to the last arrival."""
        columns = self._requests.profile.tolist(), self._requests.arrives.tolist()
        for number, (profile, now) in enumerate(zip(*columns, strict=True)):
            while self._ends and self._ends[0][0] <= now:
                ended, gpu, kind, start = heapq.heappop(self._ends)
                self._pass_time(ended)
                self._gpus.destroy(gpu, kind, start)
                self._try_waiting(ended)
            self._pass_time(now)
            if online is not None:
                online.arrived(profile)
            accepted = self._decide(number, now)
            if self.waits[number]:
                # The change of its own status wakes a pod once.
                self._waiting.append(number)
                self.tries[number] = 1
                accepted = self._try(self._waiting[-1:], now)
            if accepted:
                self._try_waiting(now)

    @property
    def mean_held(self) -> float:
        """The held units."""
        return self._held / self._span if self._span else float(self._gpus.held_units)

    @property
    def mean_whole_nodes(self) -> float:
        """The nodes without instances."""
        return self._whole_nodes / self._span if self._span else float(self._gpus.whole_nodes)

    @property
    def _span(self) -> float:
        return float(self._requests.arrives[-1] - self._requests.arrives[self._requests.warm_up])

    def _pass_time(self, now: float) -> None:
        if now > self._since:
            elapsed, self._since = now - self._since, now
            self._held += self._gpus.held_units * elapsed
            self._whole_nodes += self._gpus.whole_nodes * elapsed

    def _try_waiting(self, now: float) -> None:
        while self._waiting and self._try(self._waiting, now):
            pass

    def _try(self, numbers: Sequence[int], now: float) -> bool:
        """Decide waiting requests; whether one was accepted."""
        accepted = [self._decide(number, now) for number in numbers]
        for number in numbers:
            self.tries[number] += 1
        self._waiting = [number for number in self._waiting if self.waits[number]]
        return any(accepted)

    def _decide(self, number: int, now: float) -> bool:
        """Whether the request is accepted; otherwise it waits, or leaves."""
        requests, gpus, profile = self._requests, self._gpus, int(self._requests.profile[number])
        masks = examined = gpus.masks_for(profile)
        if self._sampling is not None:
            nodes = self._sampling.examined(gpus.free_units >= self._sizes[profile])
            examined = np.where(nodes[gpus.node], masks, gpus.full)
        began_ns = perf_counter_ns()
        placement = self._policy.choose(examined, gpus.instances, profile)
        self.latencies_ns.append(perf_counter_ns() - began_ns)
        self.waits[number] = False
        if placement is None:
            self.waits[number] = examined is not masks and self._policy.fits(masks, profile)
            self.false_refusals += int(self.waits[number])
            return False
        gpus.create(placement[0], profile, placement[1])
        self.accepted[number] = True
        leaves = now + float(requests.lifetime[number])
        heapq.heappush(self._ends, (leaves, placement[0], profile, placement[1]))
        return True


class OnlineTarget:
    """Counts arriving pods, as the server does, and retargets a policy at intervals."""

    def __init__(self, retarget: Callable[[Mapping[str, float]], None], geometry: Geometry) -> None:
        self._retarget = retarget
        self._geometry = geometry
        self._tasks = [TaskClass(mig=((profile.name, 1),)) for profile in geometry.profiles]
        self._seen = RecentWorkload(HALF_LIFE_PODS, UNKNOWN_PODS)
        self._next = _FIRST_UPDATE_PODS

    def arrived(self, profile: int) -> None:
        """Count a pod that requests the geometry's `profile`, by index."""
        self._seen.add(self._tasks[profile])
        if self._seen.seen >= self._next:
            self._retarget(expected_mix(self._geometry, self._seen.workload()))
            self._next += min(max(int(self._next * (_UPDATE_GROWTH - 1)), 1), _LONGEST_WAIT_PODS)


class MigGpus:
    """The occupied units of each GPU, as masks `[gpu]`, the number of `instances` there, `[gpu]`, and the
    profiles that it cannot take; the `node` of each GPU, `[gpu]`, and the `free_units` of nodes, `[node]`."""

    def __init__(self, geometry: Geometry, gpus: int, per_node: int = 1) -> None:
        self._geometry = geometry
        # The mask of a GPU that takes nothing.
        self.full = (1 << geometry.grid) - 1
        self.node = np.arange(gpus) // per_node
        self.free_units = np.bincount(self.node) * geometry.grid
        self._on_node = np.zeros(len(self.free_units), np.int64)
        # The number of nodes without instances.
        self.whole_nodes = len(self.free_units)
        self._masks = np.zeros(gpus, np.int64)
        self._held = np.zeros((gpus, len(geometry.profiles)), np.int64)
        # For each profile: the profiles it conflicts with, and whether its cap is below what fits.
        self._foes = [
            [i for i, other in enumerate(geometry.profiles) if media_conflict(profile.name, other.name)]
            for profile in geometry.profiles
        ]
        self._capped = [
            profile.max_instances < min(len(profile.starts), geometry.grid // profile.size)
            for profile in geometry.profiles
        ]
        self.held_units = 0
        self.instances = np.zeros(gpus, np.int64)

    def masks_for(self, profile: int) -> PerGpu:
        """The occupied units of each GPU, `[gpu]`; all units if the GPU can take no `profile`."""
        foes = self._foes[profile]
        if not (foes or self._capped[profile]):
            return self._masks
        cap = self._geometry.profiles[profile].max_instances
        barred = (self._held[:, profile] >= cap) | self._held[:, foes].any(1)
        return np.where(barred, self.full, self._masks)

    def create(self, gpu: int, profile: int, start: int) -> None:
        """Create an instance; raises ValueError for an illegal place."""
        asked = self._geometry.profiles[profile]
        if start not in asked.starts or self.masks_for(profile)[gpu] & window(asked, start):
            raise ValueError(f"GPU {gpu}: {asked.name} cannot lie at start {start}")
        self._change(gpu, profile, start, 1)

    def destroy(self, gpu: int, profile: int, start: int) -> None:
        """Destroy an instance."""
        self._change(gpu, profile, start, -1)

    def _change(self, gpu: int, profile: int, start: int, sign: int) -> None:
        asked = self._geometry.profiles[profile]
        self._masks[gpu] ^= window(asked, start)
        self._held[gpu, profile] += sign
        self.instances[gpu] += sign
        self.held_units += sign * asked.size
        node = self.node[gpu]
        self.free_units[node] -= sign * asked.size
        self.whole_nodes -= int(self._on_node[node] == 0)
        self._on_node[node] += sign
        self.whole_nodes += int(self._on_node[node] == 0)
