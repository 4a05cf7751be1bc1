"""A cluster with gangs enabled, and gangs of plain pods on it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.installation import Installation, running_installation
from tests.e2e.kustomization import write_kustomization
from tests.e2e.workload import Workload
from tests.kube_objects import SHARE

GATE = "gpu.scheduler-ext.io/gang"
PREFIX = "gpu.scheduler-ext.io/"
CONFIGURATION: Json = {
    "nominate": {
        # The gangs need most of these small clusters, and no pod states its end.
        "gangs": {"enabled": True, "deadline": "10s", "preempts": True, "keepPercent": 100},
    },
}


@contextmanager
def running_gang_cluster(
    directory: Path, configuration: Json = CONFIGURATION, **options: Any
) -> Iterator[Installation]:
    """A new cluster with the extender that plans gangs; `options` are those of `running_cluster`."""
    overlay = write_kustomization(directory / "overlay", components=["gangs"], extender=configuration)
    with running_installation(directory, overlay, **options) as installation:
        yield installation


class Gangs(Workload):
    """Gangs in a namespace where they are enabled."""

    def __init__(self, installation: Installation) -> None:
        super().__init__(installation)
        self.api.patch(
            f"/api/v1/namespaces/{self.namespace}", {"metadata": {"labels": {f"{PREFIX}gangs": "enabled"}}}
        )
        # The API server applies a label of a namespace, and a policy, a moment after it was written.
        probe = self.member("probe", gang=("probe", 2))

        def is_gated() -> bool:
            return "schedulingGates" in self.api.create(f"{self._pods}?dryRun=All", probe)["spec"]

        eventually(is_gated, "pods of gangs are gated")

    def member(
        self,
        name: str,
        gpus: int = 1,
        gang: tuple[str, int] | None = None,
        share_mib: int = 0,
        priority_class: str | None = None,
        labels: Json | None = None,
        notes: Json | None = None,
    ) -> Json:
        """A pod that asks whole GPUs, or a share of one; `gang` is its name and size."""
        ours = {GATE: gang[0], f"{GATE}-size": str(gang[1])} if gang else {}
        asked = {SHARE: str(share_mib)} if share_mib else {"nvidia.com/gpu": str(gpus)}
        pod = self.pod(
            asked, annotations=ours | (notes or {}), labels=labels, priorityClassName=priority_class
        )
        pod["metadata"]["name"] = name
        return pod

    def add(
        self, gang: str, size: int, gpus: int = 1, some: Sequence[int] | None = None, **more: Any
    ) -> None:
        """Create the members of a gang, or some of them."""
        for number in range(size) if some is None else some:
            self.create(self.member(f"{gang}-{number}", gpus, (gang, size), **more))

    def await_plan(self) -> None:
        """Wait until the planner has planned again, twice: once may have begun before."""
        extender = self.installation.active()
        for _ in range(2):
            began = time.monotonic()

            def is_younger(began: float = began) -> bool:
                age_s = self.installation.metric_of(extender, "gpu_extender_plan_age_seconds")
                return age_s < time.monotonic() - began

            eventually(is_younger, "the planner has planned again")

    def important(self) -> str:
        """The name of a new PriorityClass above the default, which the API server knows."""
        name = self.add_priority_class("important", 1000)
        probe = self.member("probe", priority_class=name)
        dry = f"{self._pods}?dryRun=All"
        eventually(lambda: not self.api.refusal("POST", dry, probe), "the class is known")
        return name

    def pods(self) -> dict[str, Json]:
        """All pods by name."""
        return {each["metadata"]["name"]: each for each in self.all_pods()}

    def on_nodes(self, gang: str) -> dict[str, str]:
        """The nodes of the members that are bound, by pod."""
        return {
            name: pod["spec"]["nodeName"]
            for name, pod in self.pods().items()
            if name.startswith(f"{gang}-")
            and pod["spec"].get("nodeName")
            and "deletionTimestamp" not in pod["metadata"]
        }

    def gated(self, gang: str) -> set[str]:
        """The members behind the gate."""
        return {
            name
            for name, pod in self.pods().items()
            if name.startswith(f"{gang}-")
            and GATE in [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
        }

    def delete(self, *names: str) -> None:
        """Delete pods at once."""
        for name in names:
            self.api.delete(f"{self._pods}/{name}", 0)

    def notes(self, reason: str) -> list[str]:
        """The notes of Events of a reason in the namespace."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        return [each.get("note", "") for each in self.api.items(path) if each.get("reason") == reason]
