"""Cores of their own for the API server and for kube-scheduler, which compete for none in most clusters."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cores:
    """`api` has the API server with etcd, and the benchmark itself; `scheduler` has kube-scheduler with the
    extender."""

    api: frozenset[int]
    scheduler: frozenset[int]

    @classmethod
    def shared(cls) -> Cores:
        """All of them for both."""
        every = frozenset(os.sched_getaffinity(0))
        return cls(every, every)

    @classmethod
    def apart(cls) -> Cores:
        """One for each. Raises ValueError if this machine has one only."""
        first, *others = sorted(os.sched_getaffinity(0))
        if not others:
            raise ValueError("this machine has one core")
        return cls(frozenset({first}), frozenset({others[0]}))


@contextlib.contextmanager
def started_on(cores: frozenset[int]) -> Iterator[None]:
    """Processes and threads that this thread starts meanwhile stay on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
