"""A whole cluster: control plane, kubelet and its server, and two nodes for ordinary pods."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster.binaries import find_binaries, find_kubelet_server
from tests.e2e.cluster.control_plane import ControlPlane, running_control_plane
from tests.e2e.cluster.delay import Delay, running_delay
from tests.e2e.cluster.features import STOCK, Features
from tests.e2e.cluster.images import OURS, product_images
from tests.e2e.cluster.kubelet import Kubelet
from tests.e2e.cluster.kubelet_server import running_kubelet_server
from tests.e2e.cluster.ports import free_ports

PLAIN_NODES = ("plain-1", "plain-2")


@dataclass(frozen=True, slots=True)
class Cluster:
    """The parts of the cluster. `delay` is between the API server and the project's containers, in clusters
    that have it.
    """

    plane: ControlPlane
    kubelet: Kubelet
    delay: Delay | None = None


@contextlib.contextmanager
def running_cluster(
    directory: Path,
    ours: Sequence[str | Path] = OURS,
    audit: bool = False,
    delayed: bool = False,
    features: Features = STOCK,
    releases: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[Cluster]:
    """A new cluster that is stopped at the end; `directory` keeps the logs of everything.

    `ours` is what Python runs for this project's image; `audit` and `features` as in ControlPlane; `delayed`
    as `delay` of Cluster; `releases` as in product_images.
    """
    binaries = find_binaries()
    (port,) = free_ports(1)
    with (
        running_control_plane(binaries, directory, audit, features) as plane,
        running_delay(plane.server) if delayed else contextlib.nullcontext() as delay,
        Kubelet(
            plane.api_as("kubelet"),
            directory / "pods",
            product_images(binaries, ours, delay.url if delay is not None else None, features, releases),
            port,
        ) as kubelet,
        running_kubelet_server(find_kubelet_server(), plane.credentials, directory, port, kubelet.pod),
    ):
        for name in PLAIN_NODES:
            status = {"capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"}}
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
            node = {"metadata": {"name": name, "labels": labels}, "status": status}
            plane.api.create("/api/v1/nodes", node)
        yield Cluster(plane, kubelet, delay)
