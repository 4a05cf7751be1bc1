"""Who is compared: kube-scheduler alone, with extenders that decide nothing, and with ours.

All run the shipped config/kube-scheduler.yaml. What is altered of it, and why, stands in
`scheduler_configuration`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.processes import extender_command, noop_command

SHIPPED = Path(__file__).resolve().parents[2] / "config" / "kube-scheduler.yaml"
# As many as the extender returns by default.
FEW_NAMES = 100
# What kube-scheduler's own performance tests set: with the default of 50 a second, binding would be the limit
# wherever a decision takes less than 20 ms, and all contenders would look alike.
_REQUESTS_PER_SECOND = 5000


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run kube-scheduler.

    `noop_names` is what a no-op extender's filter returns at most (0: all); `ours` is what the extender's
    configuration says beyond its defaults. A contender with neither has no extender.
    """

    name: str
    about: str
    noop_names: int | None = None
    ours: dict[str, Any] | None = None

    @property
    def is_ours(self) -> bool:
        """Whether its extender is the product, with metrics of its own."""
        return self.ours is not None

    def command(self, inventory: Path, directory: Path) -> list[str] | None:
        """What starts its extender; None where it has none. A configuration file goes into `directory`."""
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


NONE = Contender("none", "no extender")
NOOP_FEW = Contender("noop-100", "returns the first 100 names", noop_names=FEW_NAMES)
NOOP_ALL = Contender("noop-all", "returns every name", noop_names=0)
OURS = Contender("ours", "scheduler-ext serve", ours={})
OURS_ALL = Contender("ours-all", "with filter.maxCandidates: 0", ours={"filter": {"maxCandidates": 0}})

CONTENDERS = {each.name: each for each in (NONE, NOOP_FEW, NOOP_ALL, OURS, OURS_ALL)}


def scheduler_configuration(
    kubeconfig: Path, extender_url: str | None, binds: bool = False
) -> dict[str, Any]:
    """The shipped KubeSchedulerConfiguration, for one process on this machine.

    Altered are where its API server is, how fast it may talk to it, that it leads without an election,
    where the extender is, if anywhere, and whether that one `binds`. `percentageOfNodesToScore` stays as
    shipped without an extender, too: the comparison is about the same nodes.
    """
    configuration: dict[str, Any] = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    configuration["clientConnection"] = {
        "kubeconfig": str(kubeconfig),
        "qps": _REQUESTS_PER_SECOND,
        "burst": _REQUESTS_PER_SECOND,
    }
    configuration["leaderElection"] = {"leaderElect": False}
    if extender_url is None:
        del configuration["extenders"]
    else:
        (extender,) = configuration["extenders"]
        extender["urlPrefix"] = extender_url
        if binds:
            extender["bindVerb"] = "bind"
    return configuration
