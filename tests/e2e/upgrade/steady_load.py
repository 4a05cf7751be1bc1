"""Pods that come and go without a pause, and the complaints of the project's containers meanwhile."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.workload import Workload

_PAUSE_S = 0.1


class SteadyLoad:
    """Keeps `most` pods in the cluster while it is entered: creates one, or deletes the oldest bound one.

    A pod is deleted only after it was bound, so that every created pod has to be bound at some time.
    """

    def __init__(self, workload: Workload, pod: Callable[[], Json], most: int) -> None:
        self.created: list[str] = []
        self._workload = workload
        self._pod = pod
        self._most = most
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> SteadyLoad:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()
        if self._error is not None and error == (None, None, None):
            raise self._error

    def await_more(self, pods: int) -> None:
        """Wait until so many pods more were created, and those before them bound."""
        before = len(self.created)

        def came() -> bool:
            return self._error is not None or len(self.created) >= before + pods

        eventually(came, f"{pods} more pods come", 120.0)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_PAUSE_S):
                self._step()
        except BaseException as error:
            self._error = error

    def _step(self) -> None:
        mine = set(self.created)
        pods = [pod for pod in self._workload.all_pods() if pod["metadata"]["name"] in mine]
        if len(pods) < self._most:
            self.created.append(self._workload.create(self._pod()))
            return
        bound = [pod["metadata"]["name"] for pod in pods if "nodeName" in pod["spec"]]
        if bound:
            self._workload.remove(min(bound, key=self.created.index))


def complaints(directory: Path) -> tuple[list[str], Counter[str]]:
    """The errors in the logs of the project's containers, and the number of warnings in each log."""
    errors = []
    warnings: Counter[str] = Counter()
    for log in sorted(directory.rglob("*.log")):
        name = f"{log.parent.name}/{log.name}"
        for line in log.read_text().splitlines():
            level = _level(line)
            if level in ("error", "critical"):
                errors.append(f"{name}: {line}")
            elif level == "warning":
                warnings[name] += 1
    return errors, warnings


def _level(line: str) -> str | None:
    """The level of a line of the project; other programs do not log JSON."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry.get("level") if isinstance(entry, dict) else None
