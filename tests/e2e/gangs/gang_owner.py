"""The owner of many gangs: creates their pods, some late, creates again what was evicted or deleted, and
removes a gang that has run for long enough."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.e2e.cluster.api import ApiError, Json
from tests.e2e.gangs.gang_cluster import GATE, PREFIX, Gangs

_LOOK_S = 0.3


@dataclass
class Planned:
    """A gang of the test: `size` pods of `gpus` each, which run for `runs_s` together."""

    name: str
    size: int
    gpus: int
    runs_s: float
    important: bool = False
    late_s: float = 0.0
    created_at: float = 0.0
    ran_since: float | None = None
    finished: bool = False
    number: int = 0
    # Seconds in which it ran in part, and the system was up.
    partial_s: float = 0.0
    longest_partial_s: float = 0.0


class Owner(threading.Thread):
    """Works until all gangs have finished, or it is stopped; `is_up` says whether time counts."""

    def __init__(self, gangs: Gangs, planned: list[Planned], at_once: int, is_up: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self.gangs, self.planned = gangs, planned
        self.stopping = threading.Event()
        self.errors: list[str] = []
        self._important = gangs.important()
        self._at_once = at_once
        self._is_up = is_up

    @property
    def left(self) -> list[Planned]:
        """The gangs that have not finished."""
        return [each for each in self.planned if not each.finished]

    def run(self) -> None:
        before = time.monotonic()
        while not self.stopping.wait(_LOOK_S) and self.left:
            try:
                pods = self.gangs.pods()
                now = time.monotonic()
                passed, before = min(now - before, 1.0), now
                for each in self.left[: self._at_once]:
                    self._look_after(each, pods, passed)
            except (ApiError, ConnectionError) as error:
                self.errors.append(repr(error))

    def _look_after(self, gang: Planned, pods: Mapping[str, Json], passed: float) -> None:
        now = time.monotonic()
        gang.created_at = gang.created_at or now
        living = {
            name: pod["spec"].get("nodeName")
            for name, pod in pods.items()
            if pod["metadata"]["annotations"].get(GATE) == gang.name
            and "deletionTimestamp" not in pod["metadata"]
        }
        bound = sum(node is not None for node in living.values())
        if self._is_up():
            gang.partial_s = gang.partial_s + passed if 0 < bound < gang.size else 0.0
            gang.longest_partial_s = max(gang.longest_partial_s, gang.partial_s)
        wanted = gang.size - (1 if now < gang.created_at + gang.late_s else 0)
        for _ in range(wanted - len(living)):
            gang.number += 1
            self._create(gang)
        if bound < gang.size:
            gang.ran_since = None
            return
        gang.ran_since = gang.ran_since or now
        if now >= gang.ran_since + gang.runs_s:
            gang.finished = True
            self.gangs.delete(*living)

    def _create(self, gang: Planned) -> None:
        pod = self.gangs.member(
            f"{gang.name}-{gang.number}",
            gang.gpus,
            (gang.name, gang.size),
            priority_class=self._important if gang.important else None,
            notes={f"{PREFIX}gang-deadline": "20s"},
        )
        self.gangs.create(pod)
