"""Which program stands for a container image, and what it needs to run outside a container.

A container finds the API server and its token at fixed places. A process here is told by a kubeconfig
instead, and binds to loopback; everything else is as its manifest says.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.ports import LOOPBACK, Ports

TOKEN_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
OURS = ("-m", "scheduler_ext")
_SCHEDULER_PORT = 10259


@dataclass(frozen=True, slots=True)
class Image:
    """`entrypoint` stands before a container's own command and args; `adapt` gives further arguments.

    `server` is the URL of the API server for clients inside the cluster; None: the server's own.
    """

    entrypoint: Sequence[str | Path]
    adapt: Callable[[Ports, Path | None], Sequence[str]]
    server: str | None = None


def image_name(image: str) -> str:
    """The name without registry and tag: kube-scheduler of registry.example/kube-scheduler:v1."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def product_images(
    binaries: Binaries, ours: Sequence[str | Path] = OURS, server: str | None = None
) -> dict[str, Image]:
    """The two images of the manifests. kube-scheduler is named by its container's command.

    `ours` is what Python runs for the image of this project; `server` is where that finds the API server.
    """

    def scheduler(ports: Ports, kubeconfig: Path | None) -> Sequence[str]:
        return (
            f"--bind-address={LOOPBACK}",
            f"--secure-port={ports.local(_SCHEDULER_PORT)}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
        )

    return {
        "kube-scheduler": Image(("env", f"PATH={binaries.kube_scheduler.parent}"), scheduler),
        "scheduler-ext": Image((sys.executable, *ours), lambda ports, kubeconfig: (), server),
    }


def outside_a_container(text: str, kubeconfig: Path | None) -> str:
    """A configuration file that says where the API server is, for a kube-scheduler that cannot find out."""
    if "kind: KubeSchedulerConfiguration" not in text or kubeconfig is None:
        return text
    return f"{text}\nclientConnection: {{kubeconfig: {kubeconfig}}}\n"
