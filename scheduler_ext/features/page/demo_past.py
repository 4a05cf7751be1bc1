"""The hours before the demo began: pods that arrive on the sample cluster and leave it, on a simulated clock.
Decisions and samples are those of the extender."""

import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.features.page.history import EVERY_S, PAST_FILE, Sample, sample
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.whatif.whatif import PodInfo, WhatIf
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod.pod_needs import pod_needs
from scheduler_ext.wire.pod.pod_request import pod_request

PAST_S = 3 * 3600.0
# Pods arrive in one wave, which is over this long before the demo begins.
_QUIET_S = 1500.0
# At the top of the wave, on average.
_ARRIVES_EVERY_S = 75.0
_RUNS_S = 1500.0
# A pod that fits nowhere is deleted after this time.
_PATIENCE_S = 1200.0


class _PastJob(NamedTuple):
    pod_info: PodInfo
    arrives_s: float
    runs_s: float


def prepare(
    folder: Path, state: ClusterState, pods: Sequence[kube.Pod], config: Configuration, now: float
) -> Callable[[str, int, int], str]:
    """Write the samples; returns words about the page."""
    (folder / PAST_FILE).write_text(json.dumps(past_samples(state, pods, config, now)))
    return _words


def _words(inspection: str, running: int, waiting: int) -> str:
    return (
        f"The page at {inspection}/ shows {running} of these pods on their GPUs, the "
        f"{waiting} others waiting with the reason, and the decisions.\n"
        f"Its history begins with {PAST_S / 3600:.0f} simulated hours of such pods."
    )


def past_samples(
    state: ClusterState, pods: Sequence[kube.Pod], config: Configuration, now: float
) -> list[Sample]:
    """Samples of the `PAST_S` seconds until `now` (wall time in seconds) with copies of these pods beside the
    pods that the cluster runs. All copies have left in the end."""
    cluster = WhatIf(state, config)
    jobs = list(_jobs(pods, state, config))
    waiting: list[_PastJob] = []
    # By uid: the node, and when the pod leaves it.
    running: dict[str, tuple[str, float]] = {}
    samples: list[Sample] = []
    for step in range(int(PAST_S / EVERY_S)):
        at_s = step * EVERY_S
        before = cluster.snapshot
        for uid in [uid for uid, (_, leaves_s) in running.items() if leaves_s <= at_s]:
            node, _ = running.pop(uid)
            cluster.evict(node, [uid])
        arrived = [job for job in jobs if at_s - EVERY_S < job.arrives_s <= at_s]
        waiting = [job for job in [*waiting, *arrived] if at_s < job.arrives_s + _PATIENCE_S]
        # As kube-scheduler does, try again only after a change.
        tried = waiting if cluster.snapshot is not before else arrived
        for job in sorted(tried, key=lambda job: -job.pod_info.request.priority):
            best = cluster.best(job.pod_info)
            if best is not None:
                cluster.bind(job.pod_info, best)
                running[job.pod_info.uid] = best, min(at_s + job.runs_s, PAST_S - EVERY_S)
                waiting.remove(job)
        at = round(now - PAST_S + at_s, 1)
        if samples and cluster.snapshot is before:
            samples.append(samples[-1]._replace(at=at, waiting=len(waiting)))
        else:
            samples.append(sample(cluster.snapshot, len(waiting), at))
    return samples


def _jobs(pods: Sequence[kube.Pod], state: ClusterState, config: Configuration) -> Iterator[_PastJob]:
    """Copies of the readable pods, in the order of their arrival; the same at each call."""
    rng = random.Random(1)
    resources = config.resource_names()
    requests = [(pod, pod_request(pod, resources, state.claims)) for pod in pods]
    readable = [(pod, request) for pod, request in requests if isinstance(request, GpuRequest)]
    wave_s = PAST_S - _QUIET_S
    at_s = 0.0
    for number in itertools.count(1):
        at_s += rng.expovariate(1 / _ARRIVES_EVERY_S)
        if at_s > wave_s:
            return
        if rng.random() > math.sin(math.pi * at_s / wave_s):
            continue
        pod, request = rng.choice(readable)
        pod_info = PodInfo(pod, f"past-{number}", request, pod_needs(pod, state.claims))
        yield _PastJob(pod_info, at_s, min(rng.expovariate(1 / _RUNS_S), PAST_S))
