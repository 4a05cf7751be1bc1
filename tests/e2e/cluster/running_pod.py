"""A pod as processes of this machine: volumes, containers, probes and restarts by its own specification."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.e2e.cluster.api import STRATEGIC, Api, ApiError, Json
from tests.e2e.cluster.container import Container
from tests.e2e.cluster.credentials import write_kubeconfig
from tests.e2e.cluster.host import Host
from tests.e2e.cluster.images import TOKEN_DIRECTORY, Image, find_image, outside_a_container
from tests.e2e.cluster.namespaces import confined
from tests.e2e.cluster.ports import LOOPBACK, Ports
from tests.e2e.cluster.volumes import NotYetError, Volumes, field

_TICK_S = 0.1
_VOLUMES_EVERY_S = 0.5
_SERVICE = re.compile(r"([a-z0-9-]+)\.([a-z0-9-]+)\.svc:(\d+)")

ServicePort = Callable[[str, str, int], int | None]
"""(namespace, service, port) -> the loopback port that serves it."""


class RunningPod:
    """One pod; its thread starts its containers, probes them and reports their state."""

    def __init__(
        self,
        pod: Json,
        api: Api,
        directory: Path,
        images: Mapping[str, Image],
        service_port: ServicePort,
        host: Host,
    ) -> None:
        self.name: str = pod["metadata"]["name"]
        self.namespace: str = pod["metadata"]["namespace"]
        self.labels: dict[str, str] = pod["metadata"].get("labels", {})
        self.node: str = pod["spec"]["nodeName"]
        self._pod = pod
        self._api = api
        self._host = host
        self._service_port = service_port
        self._directory = directory
        containers = pod["spec"]["containers"]
        named = {
            port["name"]: port["containerPort"]
            for each in containers
            for port in each.get("ports", ())
            if "name" in port
        }
        self.ports = Ports(named)
        self._volumes = Volumes(pod, api, directory / "volumes", self._rewrite, host.path)
        # By container: two containers of a pod may find different tokens at one path.
        self._mounts = {
            each["name"]: {
                mount["mountPath"]: self._volumes.path(mount["name"])
                for mount in each.get("volumeMounts", ())
            }
            for each in containers
        }
        self._paths = _of_all(self._mounts)
        # Whole paths only: a directory of this machine may have /tmp in its own path.
        inside = "|".join(map(re.escape, self._paths))
        self._inside = re.compile(rf"(?<![\w./-])(?:{inside})(?=/|$)", re.MULTILINE)
        self._kubeconfig = self._kubeconfig_for_token()
        self.containers = {
            each["name"]: Container(
                each["name"],
                partial(self._command, each, _image(images, each)),
                directory / f"{each['name']}.log",
                self._environment(each, _image(images, each)),
                {
                    kind: each[kind]
                    for kind in ("startupProbe", "livenessProbe", "readinessProbe")
                    if kind in each
                },
                self.ports,
                self._inside_a_container,
                pod["spec"].get("restartPolicy") != "Never",
            )
            for each in containers
        }
        self._stopping = threading.Event()
        self._grace_s = 0.0
        self._thread = threading.Thread(target=self._live, name=self.name, daemon=True)
        self._reported: Json = {}

    def start(self) -> None:
        """Start, in a thread of its own."""
        self._thread.start()

    def stop(self, grace_s: float = 2.0) -> None:
        """End all containers; returns when they have ended."""
        self._grace_s = grace_s
        self._stopping.set()
        self._thread.join()

    @property
    def ready(self) -> bool:
        """Whether all containers are ready."""
        return all(container.ready for container in self.containers.values())

    def _live(self) -> None:
        next_sync = 0.0
        try:
            while not self._stopping.wait(_TICK_S):
                try:
                    if time.monotonic() >= next_sync:
                        self._volumes.sync()
                        next_sync = time.monotonic() + _VOLUMES_EVERY_S
                    for container in self.containers.values():
                        container.tick()
                except (NotYetError, ApiError, ConnectionError):
                    continue
                self._report()
        finally:
            for container in self.containers.values():
                container.stop(self._grace_s)

    def _report(self) -> None:
        states = [
            {
                "name": name,
                "ready": container.ready,
                "started": container.started,
                "restartCount": max(0, container.restarts),
                "state": _state(container),
                "image": name,
                "imageID": name,
            }
            for name, container in self.containers.items()
        ]
        ready = "True" if self.ready else "False"
        conditions = [{"type": kind, "status": ready} for kind in ("ContainersReady", "Ready")]
        codes = [container.exit_code for container in self.containers.values()]
        phase = "Running" if None in codes else "Failed" if any(codes) else "Succeeded"
        status = {"phase": phase, "containerStatuses": states, "conditions": conditions}
        if status == self._reported:
            return
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/status"
        with contextlib.suppress(ApiError, ConnectionError):
            self._api.patch(path, {"status": status}, STRATEGIC)
            self._reported = status

    def token(self, container: str) -> str:
        """The present token of a container at the usual path."""
        return (self._mounts[container][TOKEN_DIRECTORY] / "token").read_text()

    def _kubeconfig_for_token(self) -> Path | None:
        """At the usual path, where each container has its own token (namespaces.py)."""
        if not any(TOKEN_DIRECTORY in mounts for mounts in self._mounts.values()):
            return None
        path = self._directory / "kubeconfig"
        token = Path(TOKEN_DIRECTORY)
        write_kubeconfig(path, self._api.server, token / "ca.crt", {"tokenFile": str(token / "token")})
        return path

    def _rewrite(self, text: str) -> str:
        """The pod's configuration with the paths, ports and names of this machine."""
        # In this order: the port of another pod must not be mistaken for the pod's own.
        text = self._with_services(self.ports.localize(text))
        return outside_a_container(self._with_paths(text), self._kubeconfig)

    def _with_paths(self, text: str) -> str:
        return self._inside.sub(lambda found: str(self._paths[found[0]]), text) if self._paths else text

    def _with_services(self, text: str) -> str:
        def resolve(found: re.Match[str]) -> str:
            port = self._service_port(found[2], found[1], int(found[3]))
            if port is None:
                raise NotYetError(f"no pod answers for service {found[0]}")
            return f"{LOOPBACK}:{port}"

        return _SERVICE.sub(resolve, text)

    def _environment(self, container: Json, image: Image) -> dict[str, str]:
        values = {
            each["name"]: each["value"]
            if "value" in each
            else field(self._pod, each["valueFrom"]["fieldRef"]["fieldPath"])
            for each in container.get("env", ())
        }
        server = image.server or self._api.server
        address, _, port = server.rpartition("://")[2].rpartition(":")
        service = {"KUBERNETES_SERVICE_HOST": address, "KUBERNETES_SERVICE_PORT": port}
        own = {"PATH": os.environ["PATH"], "HOME": str(self._directory)}
        return own | service | dict(image.variables) | dict(self._host.environment) | values

    def _inside_a_container(self, command: Sequence[str]) -> list[str]:
        """The command of a probe; the image's Python is this one."""
        own = [self._with_paths(part) for part in command]
        return [sys.executable if part == "python3" else part for part in own]

    def _command(self, container: Json, image: Image) -> list[str]:
        environment = self._environment(container, image)
        given = container.get("args", ())
        expanded = [re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], part) for part in given]
        own = [self._with_paths(self._with_services(self.ports.localize(part))) for part in expanded]
        command = [*image.command(container), *own, *image.adapt(self.ports, self._kubeconfig)]
        token = self._mounts[container["name"]].get(TOKEN_DIRECTORY)
        return confined(command, self.name, token, TOKEN_DIRECTORY)


def _state(container: Container) -> Json:
    if container.exit_code is not None:
        return {"terminated": {"exitCode": container.exit_code}}
    return {"running": {}} if container.child else {"waiting": {"reason": "CrashLoopBackOff"}}


def _image(images: Mapping[str, Image], container: Json) -> Image:
    image = find_image(images, container["image"])
    if image is None:
        raise KeyError(container["image"])
    return image


def _of_all(mounts: Mapping[str, Mapping[str, Path]]) -> dict[str, Path]:
    """The source of each mount of a pod, except tokens, which are mounted for each container.

    Raises ValueError if containers disagree, because a shared configuration file may name the path.
    """
    paths: dict[str, Path] = {}
    for own in mounts.values():
        for path, volume in own.items():
            if path != TOKEN_DIRECTORY and paths.setdefault(path, volume) != volume:
                raise ValueError(f"two containers mount different volumes at {path}")
    return paths
