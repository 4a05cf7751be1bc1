"""Samples of the cluster over the last hours: its GPUs, and what pods hold and cannot use of them."""

from collections import deque
from threading import Lock
from typing import NamedTuple

from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.views.fragmentation import fragmentation

EVERY_S = 30.0
# A JSON array of earlier samples in the folder of the demo.
PAST_FILE = "past.json"
# Twelve hours.
_MOST = 1440


class Sample(NamedTuple):
    """One moment. `at` is wall time in seconds; `gpus` exist, `healthy` of them are healthy, and pods
    hold `held` of these, parts of GPUs included; future pods cannot use `unusable` of the `unallocated`
    GPUs without MIG; `waiting` pods request GPUs and have no node."""

    at: float
    gpus: int
    healthy: int
    held: float
    unallocated: float
    unusable: float
    waiting: int


def sample(snapshot: Snapshot, waiting: int, at: float) -> Sample:
    """The sample of a snapshot. Nodes whose GPUs may be gone do not count."""
    names = [name for name, node in snapshot.nodes.items() if not node.info.is_out]
    states = snapshot.state_of[snapshot.rows(names)]
    healthy = snapshot.healthy[states]
    idle = float(snapshot.idle[states].sum())
    unallocated, unusable = fragmentation(snapshot)
    return Sample(
        at=round(at, 1),
        gpus=int(snapshot.node.gpus[states].sum()),
        healthy=int(healthy.sum()),
        held=round(float(healthy.sum()) - idle, 2),
        unallocated=round(unallocated, 2),
        unusable=round(unusable, 2),
        waiting=waiting,
    )


class History:
    """The last samples, numbered from 1. Safe to use from any thread."""

    def __init__(self, most: int = _MOST) -> None:
        self._lock = Lock()
        self._samples: deque[Sample] = deque(maxlen=most)
        self._number = 0

    def add(self, sample: Sample) -> None:
        """Remember one more; the oldest is forgotten."""
        with self._lock:
            self._samples.append(sample)
            self._number += 1

    def since(self, number: int) -> tuple[int, list[Sample]]:
        """The number of the latest sample, and those after `number`, the oldest first."""
        with self._lock:
            newer = self._number - number if 0 <= number <= self._number else self._number
            kept = list(self._samples)
            return self._number, kept[-newer:] if newer else []
