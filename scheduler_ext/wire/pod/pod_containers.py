"""The containers of a pod, in the order in which kube-scheduler counts them."""

from collections.abc import Iterator
from typing import Protocol

from scheduler_ext.core.request.request import Role
from scheduler_ext.wire import kube


class HasContainers(Protocol):
    """A PodSpec, or the part of one that has its containers."""

    @property
    def init_containers(self) -> list[kube.Container | None] | None:
        """Those that start first, sidecars among them."""

    @property
    def containers(self) -> list[kube.Container | None] | None:
        """The others."""


def all_containers(spec: HasContainers) -> Iterator[tuple[kube.Container, Role]]:
    """Init containers first, because they start first; a null entry is an empty container, as in Go."""
    for container in spec.init_containers or ():
        sidecar = container is not None and container.restart_policy == "Always"
        yield container or kube.Container(), Role.SIDECAR if sidecar else Role.INIT
    for container in spec.containers or ():
        yield container or kube.Container(), Role.APP
