"""MIG churn: pods that request one instance each arrive and leave; a pod that does not fit leaves at once.
Arrivals are Poisson, lifetimes exponential with mean 1. The offered load is the mean number of slices in use
if every pod were accepted, over all slices. Acceptance is weighted by slices: counting requests would reward
a policy that starves the large ones. A slice is a unit of the placement grid."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.cache.observed_demand import HALF_LIFE_PODS, UNKNOWN_PODS
from scheduler_ext.core.forecast.mig_value import expected_mix, mix_of
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import media_conflict, window
from scheduler_ext.core.request.pod_kinds import SeenPods, TaskClass
from scheduler_ext.sim.mig.mig_policies import MIG_POLICIES, MigPolicy, PerGpu
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
    arrived."""

    geometry: Geometry
    mix: Mapping[str, float]
    trace: str
    gpus: int = 100
    load: float = 1.0
    arrivals: int = ARRIVALS
    target: str = "mix"


@dataclass(frozen=True, slots=True)
class _Requests:
    """The requests `[request]`, times in mean lifetimes; the first `warm_up` do not count."""

    profile: npt.NDArray[np.int64]
    arrives: npt.NDArray[np.float64]
    leaves: npt.NDArray[np.float64]
    warm_up: int


def run_mig_churn(churn: MigChurn, policy: str, seed: int) -> Run:
    """One policy on the requests of one seed; these are equal for all policies."""
    known = churn.mix if churn.target == "mix" else {}
    placer = MIG_POLICIES[policy](churn.geometry, known)
    online = OnlineTarget(placer.retarget, churn.geometry) if churn.target == "online" else None
    requests = _requests(churn, seed)
    accepted, latencies_ns, held = _play(churn, requests, placer, online)
    profiles = churn.geometry.profiles
    counted = slice(requests.warm_up, None)
    asked, given = requests.profile[counted], accepted[counted]
    sizes = np.array([profile.size for profile in profiles])[asked]
    arrived, allocated = int(sizes.sum()), int(sizes[given].sum())
    rejected = {
        profile.name: 1000 * profile.size * int(((asked == index) & ~given).sum())
        for index, profile in enumerate(profiles)
    }
    return Run(
        trace=churn.trace,
        policy=policy,
        seed=seed,
        mean_allocation_percent=100 * held / (churn.gpus * churn.geometry.grid),
        slice_acceptance_percent=100 * allocated / arrived,
        arrived_milli=1000 * arrived,
        allocated_milli=1000 * allocated,
        rejected_milli=sum(rejected.values()),
        rejected_by_class={name: milli for name, milli in rejected.items() if milli},
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
    return _Requests(profile, arrives, arrives + rng.exponential(1.0, count), warm_up)


def _play(
    churn: MigChurn, requests: _Requests, policy: MigPolicy, online: OnlineTarget | None
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64], float]:
    """The accepted requests, the time of each decision, and the mean of held units after the warm-up."""
    gpus = MigGpus(churn.geometry, churn.gpus)
    accepted = np.zeros(len(requests.profile), np.bool_)
    latencies_ns = np.zeros(len(requests.profile), np.int64)
    ends: list[tuple[float, int, int, int]] = []
    held, since = 0.0, float(requests.arrives[requests.warm_up])
    each = (values.tolist() for values in (requests.profile, requests.arrives, requests.leaves))
    for number, (profile, now, leaves) in enumerate(zip(*each, strict=True)):
        counts = number > requests.warm_up
        while ends and ends[0][0] <= now:
            ended, gpu, kind, start = heapq.heappop(ends)
            if counts:
                held, since = held + gpus.held_units * (ended - since), ended
            gpus.destroy(gpu, kind, start)
        if counts:
            held, since = held + gpus.held_units * (now - since), now
        if online is not None:
            online.arrived(profile)
        began_ns = perf_counter_ns()
        placement = policy.choose(gpus.masks_for(profile), gpus.instances, profile)
        latencies_ns[number] = perf_counter_ns() - began_ns
        if placement is not None:
            gpus.create(placement[0], profile, placement[1])
            accepted[number] = True
            heapq.heappush(ends, (leaves, placement[0], profile, placement[1]))
    span = float(requests.arrives[-1] - requests.arrives[requests.warm_up])
    return accepted, latencies_ns, held / span if span else float(gpus.held_units)


class OnlineTarget:
    """Counts arriving pods, as the server does, and retargets a policy at intervals."""

    def __init__(self, retarget: Callable[[Mapping[str, float]], None], geometry: Geometry) -> None:
        self._retarget = retarget
        self._geometry = geometry
        self._tasks = [TaskClass(mig=((profile.name, 1),)) for profile in geometry.profiles]
        self._seen = SeenPods(HALF_LIFE_PODS, UNKNOWN_PODS)
        self._next = _FIRST_UPDATE_PODS

    def arrived(self, profile: int) -> None:
        """Count a pod that requests the geometry's `profile`, by index."""
        self._seen.saw(self._tasks[profile])
        if self._seen.seen >= self._next:
            self._retarget(expected_mix(self._geometry, self._seen.workload()))
            self._next += min(max(int(self._next * (_UPDATE_GROWTH - 1)), 1), _LONGEST_WAIT_PODS)


class MigGpus:
    """The occupied units of each GPU, as masks `[gpu]`, the number of `instances` there, `[gpu]`, and the
    profiles that it cannot take."""

    def __init__(self, geometry: Geometry, gpus: int) -> None:
        self._geometry = geometry
        self._full = (1 << geometry.grid) - 1
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
        return np.where(barred, self._full, self._masks)

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
