"""One container as a process: started, probed, restarted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import Json
from tests.e2e.cluster.child import Child
from tests.e2e.cluster.ports import LOOPBACK, Ports

# kubelet waits 10 s before the second start, and longer every time.
_RESTART_S = 1.0


class Container:
    """`tick` is called several times a second and does what is due."""

    def __init__(
        self,
        name: str,
        command: Callable[[], Sequence[str]],
        log: Path,
        env: Mapping[str, str],
        probes: Mapping[str, Json],
        ports: Ports,
    ) -> None:
        self.name = name
        self.log = log
        self.started = False
        self.ready = False
        self.restarts = -1
        self.child: Child | None = None
        self._command = command
        self._env = env
        self._specs = probes
        self._ports = ports
        self._start_at = 0.0
        self._probes: dict[str, Probe | Unprobed] = {}

    def tick(self) -> None:
        """Start what does not run, probe what does."""
        if self.child is not None and self.child.returncode is not None:
            self._ended()
        if self.child is None:
            if time.monotonic() >= self._start_at:
                self._start()
            return
        self.started = self.started or self._asked("startupProbe").passed
        if not self.started:
            if self._asked("startupProbe").given_up:
                self.child.kill()
            return
        readiness = self._asked("readinessProbe")
        self.ready = readiness.passed or (self.ready and not readiness.given_up)
        if self._asked("livenessProbe").given_up:
            self.child.kill()

    def stop(self, grace_s: float) -> None:
        """End the process, if one runs."""
        if self.child is not None:
            self.child.stop(grace_s)
            self.child = None

    def _start(self) -> None:
        self.restarts += 1
        self.child = Child(self.name, self._command(), self.log, self._env)
        kinds = ("startupProbe", "livenessProbe", "readinessProbe")
        # What is not probed is well as long as it runs.
        self._probes = {
            kind: Probe(self._specs[kind], self._ports) if kind in self._specs else Unprobed()
            for kind in kinds
        }

    def _ended(self) -> None:
        self.child = None
        self.started = self.ready = False
        self._start_at = time.monotonic() + _RESTART_S

    def _asked(self, kind: str) -> Probe | Unprobed:
        probe = self._probes[kind]
        probe.ask_if_due()
        return probe


class Unprobed:
    """In the place of a probe that the container does not have."""

    passed = True
    given_up = False

    def ask_if_due(self) -> None:
        """There is nothing to ask."""


class Probe:
    """An httpGet probe, asked at its own period."""

    def __init__(self, spec: Json, ports: Ports) -> None:
        get = spec["httpGet"]
        scheme = get.get("scheme", "HTTP").lower()
        self._url = f"{scheme}://{LOOPBACK}:{ports.local(get['port'])}{get['path']}"
        self._period_s = spec.get("periodSeconds", 10)
        self._timeout_s = spec.get("timeoutSeconds", 1)
        self._failures_allowed = spec.get("failureThreshold", 3)
        self._next = 0.0
        self._failures = 0
        self.passed = False

    @property
    def given_up(self) -> bool:
        """Whether it has failed as often as it may."""
        return bool(self._failures >= self._failures_allowed)

    def ask_if_due(self) -> None:
        """Ask, if the last time was a period ago."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._period_s
        self.passed = self._ask()
        self._failures = 0 if self.passed else self._failures + 1

    def _ask(self) -> bool:
        try:
            unverified.get(self._url, timeout_s=self._timeout_s)
        except OSError:
            return False
        return True
