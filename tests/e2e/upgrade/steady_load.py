"""Pods that come and go without a pause, and what a cluster must never show meanwhile."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.installation import Installation
from tests.e2e.workload import Workload

_PAUSE_S = 0.1
_STATES = ("Fresh", "Stale", "Missing")


class SteadyLoad:
    """Keeps `most` pods in the cluster while it is entered: creates one, or deletes the oldest bound one.

    A pod is deleted only after it was bound, so that every created pod has to be bound at some time.
    """

    def __init__(self, workload: Workload, pod: Callable[[], Json], most: int) -> None:
        self.created: list[str] = []
        self.states: set[str] = set()
        self._workload = workload
        self._pod = pod
        self._most = most
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._guarded, args=(step,), name=step.__name__, daemon=True)
            for step in (self._step, self._sample)
        ]

    def __enter__(self) -> SteadyLoad:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self._error is not None and error is None:
            raise self._error

    def await_more(self, pods: int) -> None:
        """Wait until so many pods more were created, and those before them bound."""
        before = len(self.created)

        def came() -> bool:
            return self._error is not None or len(self.created) >= before + pods

        eventually(came, f"{pods} more pods come", 120.0)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            while not self._stopping.wait(_PAUSE_S):
                step()
        except BaseException as error:
            self._error = error

    def _step(self) -> None:
        mine = set(self.created)
        pods = [pod for pod in self._workload.all_pods() if pod["metadata"]["name"] in mine]
        if len(pods) < self._most:
            self.created.append(self._workload.create(self._pod()))
            return
        bound = [pod for pod in pods if "nodeName" in pod["spec"]]
        if bound:
            oldest = min(bound, key=lambda pod: self.created.index(pod["metadata"]["name"]))
            self._workload.remove(oldest["metadata"]["name"])

    def _sample(self) -> None:
        """The states of nodes, as every ready extender sees them."""
        installation = self._workload.installation
        for pod in installation.pods():
            if not pod.ready:
                continue
            for state in _STATES:
                # It may end at any time.
                with contextlib.suppress(OSError):
                    if installation.metric_of(pod, "gpu_extender_inventory_nodes", state=state):
                        self.states.add(state)


def complaints(directory: Path) -> tuple[list[str], Counter[str]]:
    """The errors in the logs of the project's containers, and the number of warnings in each log."""
    errors = []
    warnings: Counter[str] = Counter()
    for log in sorted(directory.rglob("*.log")):
        for line in log.read_text().splitlines():
            level = _level(line)
            if level in ("error", "critical"):
                errors.append(f"{log.parent.name}/{log.name}: {line}")
            elif level == "warning":
                warnings[f"{log.parent.name}/{log.name}"] += 1
    return errors, warnings


def _level(line: str) -> str | None:
    """The level of a line of the project; other programs do not log JSON."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry.get("level") if isinstance(entry, dict) else None


def restarted(installation: Installation, *namespaces: str) -> list[str]:
    """The extenders and agents of these namespaces that were started more than once. On a busy machine, a
    kube-scheduler may end because it cannot renew its Lease."""
    return [
        pod["metadata"]["name"]
        for namespace in namespaces
        for pod in installation.api.items(f"/api/v1/namespaces/{namespace}/pods")
        for each in pod["status"].get("containerStatuses", ())
        if each["name"] != "kube-scheduler" and each["restartCount"]
    ]
