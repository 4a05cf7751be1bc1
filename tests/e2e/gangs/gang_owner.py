"""The owner of many gangs: creates their pods in random order, some late, creates again what was evicted or
deleted, and removes a gang that has run for long enough."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field

from tests.e2e.cluster.api import ApiError
from tests.e2e.gangs.gang_cluster import PREFIX, Gangs
from tests.e2e.gangs.gang_watch import GangWatch

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
    names: set[str] = field(default_factory=set)


class Owner(threading.Thread):
    """Works until all gangs have finished, or it is stopped."""

    def __init__(
        self, gangs: Gangs, watch: GangWatch, planned: list[Planned], at_once: int, seed: int
    ) -> None:
        super().__init__(daemon=True)
        self.gangs, self.watch, self.planned = gangs, watch, planned
        self.important = gangs.important()
        self.stopping = threading.Event()
        self._rng = random.Random(seed)
        self._at_once = at_once
        self.errors: list[str] = []

    @property
    def left(self) -> list[Planned]:
        """The gangs that have not finished."""
        return [each for each in self.planned if not each.finished]

    def run(self) -> None:
        while not self.stopping.is_set() and self.left:
            for each in self.left[: self._at_once]:
                try:
                    self._look_after(each)
                except ApiError as error:
                    if error.status not in (404, 409):
                        self.errors.append(f"{each.name}: {error}")
                except Exception as error:
                    # The API server is paused.
                    self.errors.append(f"{each.name}: {error!r}")
                    time.sleep(1.0)
            time.sleep(_LOOK_S)

    def _look_after(self, gang: Planned) -> None:
        now = time.monotonic()
        gang.created_at = gang.created_at or now
        there = self.watch.living(gang.name)
        wanted = gang.size - (1 if now < gang.created_at + gang.late_s else 0)
        # A pod that was created a moment ago may not have been seen yet.
        gang.names -= self.watch.gone(gang.names)
        for _ in range(wanted - len(gang.names | there)):
            gang.number += 1
            name = f"{gang.name}-{gang.number}"
            gang.names.add(name)
            self._create(gang, name)
        if len(self.watch.bound(gang.name)) >= gang.size:
            gang.ran_since = gang.ran_since or now
            if now >= gang.ran_since + gang.runs_s:
                gang.finished = True
                self.watch.finish(gang.name)
                self.gangs.delete(*self.watch.living(gang.name))
        else:
            gang.ran_since = None

    def _create(self, gang: Planned, name: str) -> None:
        pod = self.gangs.member(
            name,
            gang.gpus,
            (gang.name, gang.size),
            priority_class=self.important if gang.important else None,
            notes={f"{PREFIX}gang-deadline": "20s"},
        )
        try:
            self.gangs.create(pod)
        except ApiError as error:
            if error.status != 409:
                gang.names.discard(name)
                raise
        except Exception:
            # Whether it was created is not known.
            raise
