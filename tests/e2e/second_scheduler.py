"""A further kube-scheduler with the shipped configuration, except for a test's changes."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.e2e.cluster import unverified
from tests.e2e.cluster.child import Child
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.ports import LOOPBACK, free_ports

SHIPPED = Path(__file__).parents[2] / "config" / "kube-scheduler.yaml"
_READY_S = 30.0


class SecondScheduler(NamedTuple):
    """A running one: its schedulerName, and its metrics."""

    name: str
    metrics: Callable[[], str]


@contextlib.contextmanager
def running_scheduler(plane: ControlPlane, extender_url: str, **extender: Any) -> Iterator[SecondScheduler]:
    """A scheduler that calls `extender_url`; `extender` changes its entry."""
    name = f"scheduler-{uuid.uuid4().hex[:8]}"
    configuration = yaml.safe_load(SHIPPED.read_bytes())
    configuration["leaderElection"] = {"leaderElect": False}
    configuration["clientConnection"] = {"kubeconfig": str(plane.kubeconfig("kube-scheduler"))}
    configuration["profiles"][0]["schedulerName"] = name
    configuration["extenders"][0] |= {"urlPrefix": extender_url, **extender}
    file = plane.directory / f"{name}.yaml"
    file.write_text(yaml.safe_dump(configuration))
    (port,) = free_ports(1)
    command: tuple[str | Path, ...] = (
        plane.binaries.kube_scheduler,
        f"--config={file}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--authentication-kubeconfig={plane.kubeconfig('kube-scheduler')}",
        f"--authorization-kubeconfig={plane.kubeconfig('kube-scheduler')}",
        *plane.features.flags(),
    )
    child = Child(name, command, plane.directory / f"{name}.log")
    try:
        url = f"https://{LOOPBACK}:{port}"
        child.wait_ready(lambda: bool(unverified.get(f"{url}/readyz")), _READY_S)
        yield SecondScheduler(name, lambda: unverified.get(f"{url}/metrics", plane.api.token))
    finally:
        child.stop()
