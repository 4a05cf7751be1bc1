"""One container as a process: started, probed, restarted if its pod says so."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import Json
from tests.e2e.cluster.child import Child
from tests.e2e.cluster.ports import LOOPBACK, Ports

# kubelet waits 10 s before the second start, and longer every time.
_RESTART_S = 1.0


@dataclass(eq=False)
class Container:
    """`tick` is called several times a second and performs due actions. `inside` turns a command in the
    container into one of this machine; `restarted` says whether it starts again after its end.
    """

    name: str
    command: Callable[[], Sequence[str]]
    log: Path
    env: Mapping[str, str]
    probes: Mapping[str, Json]
    ports: Ports
    inside: Callable[[Sequence[str]], Sequence[str]]
    restarted: bool = True
    started: bool = False
    ready: bool = False
    restarts: int = -1
    child: Child | None = None
    # Of one that is not restarted, after its end.
    exit_code: int | None = None
    _start_at: float = 0.0
    _probes: dict[str, Probe] = field(default_factory=dict)

    def tick(self) -> None:
        """Start it if it does not run, otherwise probe it."""
        if self.child is not None and self.child.returncode is not None:
            self._ended(self.child.returncode)
        if self.exit_code is not None:
            return
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

    def kill(self) -> None:
        """Kill its process, which runs."""
        assert self.child is not None
        self.child.kill()

    def _start(self) -> None:
        # It may not be known yet: a Service without a pod has no address.
        command = self.command()
        self.restarts += 1
        self.child = Child(self.name, command, self.log, self.env)
        self._probes = {kind: self._probe(spec) for kind, spec in self.probes.items()}

    def _probe(self, spec: Json) -> Probe:
        if "exec" in spec:
            return Probe(spec, partial(_succeeds, self.inside(spec["exec"]["command"]), self.env))
        get = spec["httpGet"]
        scheme = get.get("scheme", "HTTP").lower()
        return Probe(
            spec, partial(_answers, f"{scheme}://{LOOPBACK}:{self.ports.local(get['port'])}{get['path']}")
        )

    def _ended(self, exit_code: int) -> None:
        self.child = None
        self.exit_code = None if self.restarted else exit_code
        self.started = self.ready = False
        self._start_at = time.monotonic() + _RESTART_S

    def _asked(self, kind: str) -> Probe:
        # A container without this probe is healthy as long as it runs.
        probe = self._probes.setdefault(kind, Probe({}, lambda timeout_s: True))
        probe.ask_if_due()
        return probe


def _answers(url: str, timeout_s: float) -> bool:
    """An httpGet probe."""
    try:
        unverified.get(url, timeout_s=timeout_s)
    except OSError:
        return False
    return True


def _succeeds(command: Sequence[str], env: Mapping[str, str], timeout_s: float) -> bool:
    """An exec probe."""
    try:
        done = subprocess.run(command, env=env, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


class Probe:
    """A probe with its own period."""

    def __init__(self, spec: Json, passes: Callable[[float], bool]) -> None:
        self._spec = spec
        self._passes = passes
        self._next = time.monotonic() + spec.get("initialDelaySeconds", 0)
        self._failures = 0
        self.passed = False

    @property
    def given_up(self) -> bool:
        """Whether it has failed as often as allowed."""
        allowed: int = self._spec.get("failureThreshold", 3)
        return self._failures >= allowed

    def ask_if_due(self) -> None:
        """Run the probe if a period has passed since the last time."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._spec.get("periodSeconds", 10)
        self.passed = self._passes(self._spec.get("timeoutSeconds", 1))
        self._failures = 0 if self.passed else self._failures + 1
