"""One kube-scheduler process, started for a block and stopped after it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scheduler.contenders import SCHEDULERS, scheduler_configuration
from tests.e2e.cluster.api import Api, ApiError
from tests.e2e.cluster.child import Child
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.ports import LOOPBACK, free_ports

_READY_S = 60.0


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of /metrics and its time: on the monotonic clock, half-way between request and answer."""

    at_s: float
    text: str


class SchedulerProcess:
    """kube-scheduler with a configuration of SCHEDULERS, calling the extender at `extender_url` if any.

    With `binds`, the extender also binds.
    """

    def __init__(
        self,
        plane: ControlPlane,
        directory: Path,
        name: str,
        extender_url: str | None,
        binds: bool = False,
        scheduler: str = SCHEDULERS[0],
    ) -> None:
        directory.mkdir(exist_ok=True)
        kubeconfig = plane.kubeconfig("kube-scheduler")
        configuration = scheduler_configuration(kubeconfig, extender_url, binds, scheduler)
        config_file = directory / f"kube-scheduler-{name}.json"
        config_file.write_text(json.dumps(configuration), encoding="utf-8")
        credentials = plane.credentials
        (port,) = free_ports(1)
        self._api = Api(f"https://{LOOPBACK}:{port}", credentials.ca_file, token="none", connections=1)
        self._child = Child(
            f"kube-scheduler ({name})",
            [
                plane.binaries.kube_scheduler,
                f"--config={config_file}",
                f"--bind-address={LOOPBACK}",
                f"--secure-port={port}",
                f"--tls-cert-file={credentials.serving_cert_file}",
                f"--tls-private-key-file={credentials.serving_key_file}",
                # Without a kubeconfig for it no client is authenticated; this path may be read without
                # authentication.
                "--authorization-always-allow-paths=/healthz,/metrics",
            ],
            directory / f"kube-scheduler-{name}.log",
        )

    @property
    def pid(self) -> int:
        """The id of the process, which leads a process group."""
        return self._child.pid

    def wait_ready(self) -> None:
        """Wait until it answers; its caches are then being filled. Raises ChildError."""
        self._child.wait_ready(self._is_healthy, _READY_S)

    def _is_healthy(self) -> bool:
        try:
            return self._api.text("/healthz") == "ok"
        except ApiError:
            return False

    def read_metrics(self) -> Reading:
        """Read /metrics. Raises OSError or ApiError."""
        asked_s = time.monotonic()
        text = self._api.text("/metrics")
        return Reading((asked_s + time.monotonic()) / 2, text)

    def last_words(self) -> str:
        """Whether it runs, and the end of its log."""
        state = "runs" if self._child.returncode is None else f"ended with {self._child.returncode}"
        return f"{self._child.name} {state}; its log ends:\n{self._child.tail()}"

    def stop(self) -> None:
        """Stop it."""
        self._child.stop()
