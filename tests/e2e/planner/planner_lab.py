"""Nodes and pods of one test, whose kube-scheduler can be held so that the planner runs ahead."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.child import Child
from tests.e2e.workload import Workload

PLANNED = "gpu.scheduler-ext.io/planned"
ONE = {"nvidia.com/gpu": "1"}
# Shorter than the time after which the Lease of a held kube-scheduler is over.
_LEASE_S = 15.0


class PlannerLab(Workload):
    """`held` stops the active kube-scheduler for a moment; its Lease, and so its extender, stays active."""

    _held: Child | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """kube-scheduler does nothing meanwhile."""
        self._held = self.installation.active().containers["kube-scheduler"].child
        assert self._held is not None
        self._held.signal_all(signal.SIGSTOP)
        began = time.monotonic()
        try:
            yield
        finally:
            self.resume()
        assert time.monotonic() - began < _LEASE_S

    def resume(self) -> None:
        """kube-scheduler goes on."""
        if self._held is not None:
            self._held.signal_all(signal.SIGCONT)
            self._held = None

    def nominated(self, name: str) -> str | None:
        """The node that a pod is nominated to."""
        node: str | None = self.get(name)["status"].get("nominatedNodeName")
        return node

    def await_nominated(self, name: str) -> str:
        """Wait until a pod is nominated, and return its node."""
        return str(eventually(lambda: self.nominated(name), f"{name} is nominated"))

    def managers(self, name: str) -> set[str]:
        """The field managers of a pod's nomination."""
        entries: list[Json] = self.get(name)["metadata"]["managedFields"]
        return {
            each["manager"]
            for each in entries
            if "f:nominatedNodeName" in each["fieldsV1"].get("f:status", {})
        }

    def outcomes(self, **labels: Any) -> float:
        """The number of nominations with an outcome."""
        return self.installation.metric("gpu_extender_nominations_total", **labels)
