"""Nodes and pods of one test, whose kube-scheduler can be held so that the planner runs ahead."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.cluster.api import eventually
from tests.e2e.workload import Workload

PLANNED = "gpu.scheduler-ext.io/planned"
ONE = {"nvidia.com/gpu": "1"}
# Shorter than the time after which the Lease of a held kube-scheduler is over.
_LEASE_S = 15.0


class PlannerLab(Workload):
    """`held` stops the active kube-scheduler for a moment; its Lease, and so its extender, stays active."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """kube-scheduler does nothing meanwhile."""
        child = self.installation.active().containers["kube-scheduler"].child
        assert child is not None
        child.signal_all(signal.SIGSTOP)
        began = time.monotonic()
        try:
            yield
        finally:
            child.signal_all(signal.SIGCONT)
        assert time.monotonic() - began < _LEASE_S

    def await_nominated(self, name: str) -> str:
        """Wait until a pod is nominated, and return its node."""
        return str(
            eventually(lambda: self.get(name)["status"].get("nominatedNodeName"), f"{name} is nominated")
        )
