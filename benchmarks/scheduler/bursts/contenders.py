"""The compared configurations of bursts."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.processes import noop_command, running_process
from benchmarks.scheduler.block import Running
from benchmarks.scheduler.contenders import FEW_NAMES
from benchmarks.scheduler.exposition import Exposition
from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.control_plane import ControlPlane

_KNOWN_S = 600.0
# Reports are written once, so that no other work runs during the measurement.
_INVENTORY = {"inventory": {"staleAfter": "12h", "missingAfter": "24h"}}


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to schedule a burst: with `noop` an extender that decides nothing, with `ours` the extender's
    configuration, with neither kube-scheduler alone. `scheduler` is one of SCHEDULERS."""

    name: str
    ours: dict[str, Any] | None = None
    noop: bool = False
    scheduler: str = "shipped"


CONTENDERS = {
    each.name: each
    for each in (
        Contender("stock", scheduler="stock"),
        Contender("none"),
        Contender("noop-100", noop=True),
        Contender("ours", {}),
        Contender("ours-100", {}, scheduler="best 100"),
        Contender("every-node", {}, scheduler="every node"),
    )
}


@dataclass(frozen=True, slots=True)
class RunningContender:
    """A contender whose extender answers, if it has one; `pid` leads the extender's process group."""

    name: str
    running: Running
    pid: int | None = None


@contextlib.contextmanager
def running(
    contender: Contender, plane: ControlPlane, directory: Path, nodes: int
) -> Iterator[RunningContender]:
    """The contender, as soon as its extender knows all nodes."""
    if contender.noop:
        with running_process(noop_command(FEW_NAMES)) as (url_of, pid):
            yield RunningContender(contender.name, Running(url_of("api"), scheduler=contender.scheduler), pid)
        return
    if contender.ours is None:
        yield RunningContender(contender.name, Running(scheduler=contender.scheduler))
        return
    config = directory / f"{contender.name}.yaml"
    kind = {"apiVersion": "config.scheduler-ext.io/v1alpha1", "kind": "ExtenderConfiguration"}
    config.write_text(yaml.safe_dump({**kind, **_INVENTORY, **contender.ours}))
    listen = [f"--{name}listen=127.0.0.1:0" for name in ("", "health-", "inspect-")]
    command = [sys.executable, "-m", "scheduler_ext", "serve", f"--config={config}", *listen]
    with running_process([*command, f"--kubeconfig={plane.kubeconfig('admin')}"]) as (url_of, pid):
        found = Running(url_of("api"), url_of("health"), scheduler=contender.scheduler)

        def known() -> bool:
            text = unverified.get(f"{found.health_url}/metrics", timeout_s=_KNOWN_S)
            return Exposition(text).total("gpu_extender_inventory_nodes", state="Fresh") == nodes

        eventually(known, "the extender knows all nodes", _KNOWN_S)
        yield RunningContender(contender.name, found, pid)
