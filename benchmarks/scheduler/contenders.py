"""The compared configurations: kube-scheduler as it comes, with the shipped configuration, with extenders
that decide nothing, and with this one. `scheduler_configuration` lists the changes and their reasons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.processes import extender_command, noop_command

SHIPPED = Path(__file__).resolve().parents[2] / "config" / "kube-scheduler.yaml"
# As many as the extender returns by default.
FEW_NAMES = 100
# The setting of kube-scheduler's own performance tests: with the default of 50 a second, binding would be the
# limit whenever a decision takes less than 20 ms, and all contenders would look alike.
_REQUESTS_PER_SECOND = 5000


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run kube-scheduler.

    `noop_names` is the maximum that a no-op extender's filter returns; `ours` is the extender's
    configuration beyond its defaults. A contender with neither has no extender. `scheduler` is one of
    SCHEDULERS.
    """

    name: str
    about: str
    noop_names: int | None = None
    ours: dict[str, Any] | None = None
    scheduler: str = "shipped"

    @property
    def is_ours(self) -> bool:
        """Whether its extender is the product, with its own metrics."""
        return self.ours is not None

    def command(self, inventory: Path, directory: Path) -> list[str] | None:
        """The command of its extender; None if it has none. A configuration file goes into `directory`."""
        if self.noop_names is not None:
            return noop_command(self.noop_names)
        if self.ours is None:
            return None
        if not self.ours:
            return extender_command(inventory)
        config = directory / f"{self.name}.yaml"
        described = {
            "apiVersion": "config.scheduler-ext.io/v1alpha1",
            "kind": "ExtenderConfiguration",
            **self.ours,
        }
        config.write_text(yaml.safe_dump(described), encoding="utf-8")
        return extender_command(inventory, config)


STOCK = Contender("stock", "no extender, kube-scheduler as it comes", scheduler="stock")
NONE = Contender("none", "no extender")
NOOP_FEW = Contender("noop-100", "returns the first 100 names", noop_names=FEW_NAMES)
OURS = Contender("ours", "scheduler-ext serve", ours={})
OURS_100 = Contender("ours-100", "with filterVerb: filter, the best 100", ours={}, scheduler="best 100")
EVERY_NODE = Contender("every-node", "with percentageOfNodesToScore: 100", ours={}, scheduler="every node")

CONTENDERS = {each.name: each for each in (STOCK, NONE, NOOP_FEW, OURS, OURS_100, EVERY_NODE)}


SCHEDULERS = ("shipped", "stock", "every node", "best 100")
"""The shipped config/kube-scheduler.yaml, kube-scheduler's defaults, and the shipped one with
`percentageOfNodesToScore: 100`, or with `filterVerb: filter`."""


def scheduler_configuration(
    kubeconfig: Path, extender_url: str | None, binds: bool = False, scheduler: str = SCHEDULERS[0]
) -> dict[str, Any]:
    """The KubeSchedulerConfiguration of one of SCHEDULERS, for one process on this machine.

    Changed are the API server's address and rate limit, leader election (off), the extender's address, if
    any, and whether it `binds`. The stock configuration keeps the name of the profile, which the pods choose.
    """
    configuration: dict[str, Any] = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    configuration["clientConnection"] = {
        "kubeconfig": str(kubeconfig),
        "qps": _REQUESTS_PER_SECOND,
        "burst": _REQUESTS_PER_SECOND,
    }
    configuration["leaderElection"] = {"leaderElect": False}
    if scheduler == "stock":
        (profile,) = configuration["profiles"]
        configuration["profiles"] = [{"schedulerName": profile["schedulerName"]}]
    elif scheduler == "every node":
        configuration["percentageOfNodesToScore"] = 100
    if extender_url is None:
        del configuration["extenders"]
    else:
        (extender,) = configuration["extenders"]
        extender["urlPrefix"] = extender_url
        if scheduler == "best 100":
            extender["filterVerb"] = "filter"
        if binds:
            extender["bindVerb"] = "bind"
    return configuration
