"""A kubelet for all nodes at once: allocatable, running pods, and deletions.

Pods with known images run as processes of this machine (running_pod.py); others only report that they run.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self

from tests.e2e.cluster.api import STRATEGIC, Api, ApiError, Json
from tests.e2e.cluster.host import Host
from tests.e2e.cluster.images import Image, find_image
from tests.e2e.cluster.ports import LOOPBACK
from tests.e2e.cluster.running_pod import RunningPod

log = logging.getLogger(__name__)

_TICK_S = 0.1
_PAUSE_S = 0.5


class Kubelet:
    """Serves every node while it is entered. `images` run for real, by name without registry, with or without
    tag; `port` is the port of its server (kubelet_server.py).
    """

    def __init__(self, api: Api, directory: Path, images: Mapping[str, Image], port: int) -> None:
        self._api = api
        self._directory = directory
        self._images = images
        self._port = port
        self._stopping = threading.Event()
        self._capacities: dict[str, Json] = {}
        self._lock = threading.Lock()
        self._pods: dict[str, RunningPod] = {}
        self._doomed: dict[str, tuple[float, Json]] = {}
        self._hosts: dict[str, Host] = {}
        loops = (self._watch_nodes, self._watch_pods, self._end_pods)
        self._threads = [
            threading.Thread(target=self._go_on, args=(loop,), name=loop.__name__, daemon=True)
            for loop in loops
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop all processes; the objects stay as they are."""
        self._stopping.set()
        for pod in list(self._pods.values()):
            pod.stop()
        for thread in self._threads:
            thread.join()
        for host in self._hosts.values():
            host.close()

    def host(self, node: str) -> Host:
        """The machine under a node."""
        with self._lock:
            return self._hosts.setdefault(node, Host())

    def running(self, namespace: str, **labels: str) -> list[RunningPod]:
        """The pods that run for real, by their labels, oldest first."""
        with self._lock:
            return [
                pod
                for pod in self._pods.values()
                if pod.namespace == namespace and labels.items() <= pod.labels.items()
            ]

    def pod(self, namespace: str, name: str) -> RunningPod | None:
        """The pod of that name; None if it has no processes."""
        return next((pod for pod in self.running(namespace) if pod.name == name), None)

    def service_port(self, namespace: str, name: str, port: int) -> int | None:
        """The loopback address of a Service's port; None while no pod behind it runs."""
        spec = self._api.get(f"/api/v1/namespaces/{namespace}/services/{name}")["spec"]
        target = next(entry["targetPort"] for entry in spec["ports"] if entry["port"] == port)
        for pod in self.running(namespace, **spec["selector"]):
            return pod.ports.local(target)
        return None

    def _go_on(self, loop: Callable[[], None]) -> None:
        """One error, or one missing answer, does not stop all nodes: `loop` starts again."""
        while not self._stopping.is_set():
            try:
                loop()
            except (ApiError, ConnectionError):
                log.exception("%s starts again", loop.__name__)
                self._stopping.wait(_PAUSE_S)

    def _watch_nodes(self) -> None:
        for kind, node in self._api.watch("/api/v1/nodes", self._stopping.is_set):
            name = node["metadata"]["name"]
            if kind == "DELETED":
                self._capacities.pop(name, None)
                continue
            status = node.get("status", {})
            capacity = status.get("capacity", {})
            before = self._capacities.get(name, {})
            allocatable = status.get("allocatable", {})
            changed = {
                resource: amount
                for resource, amount in capacity.items()
                if resource not in allocatable or (before and before.get(resource) != amount)
            }
            gone = {resource: None for resource in allocatable if resource not in capacity}
            self._capacities[name] = capacity
            told: Json = {"allocatable": {**changed, **gone}} if changed or gone else {}
            if not any(each["type"] == "Ready" for each in status.get("conditions", ())):
                told["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
            if not status["daemonEndpoints"]["kubeletEndpoint"]["Port"]:
                told["addresses"] = [{"type": "InternalIP", "address": LOOPBACK}]
                told["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self._port}}
            if told:
                self._tell(f"/api/v1/nodes/{name}/status", {"status": told})

    def _watch_pods(self) -> None:
        for kind, pod in self._api.watch("/api/v1/pods", self._stopping.is_set):
            uid = pod["metadata"]["uid"]
            if kind == "DELETED":
                self._forget(uid)
            elif "nodeName" not in pod["spec"]:
                continue
            elif "deletionTimestamp" in pod["metadata"]:
                grace_s = pod["metadata"].get("deletionGracePeriodSeconds", 0)
                with self._lock:
                    self._doomed.setdefault(uid, (time.monotonic() + grace_s, pod))
            elif pod.get("status", {}).get("phase", "Pending") == "Pending":
                self._run(uid, pod)

    def _run(self, uid: str, pod: Json) -> None:
        """Start a pod's processes, or only report that it runs if it has none."""
        with self._lock:
            if uid in self._pods:
                return
            images = [find_image(self._images, each["image"]) for each in pod["spec"]["containers"]]
            if any(image is None for image in images):
                running = None
            else:
                directory = self._directory / f"{pod['metadata']['name']}-{uid[:8]}"
                host = self._hosts.setdefault(pod["spec"]["nodeName"], Host())
                running = RunningPod(pod, self._api, directory, self._images, self.service_port, host)
                self._pods[uid] = running
        if running is not None:
            running.start()
            return
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
        ready = [{"type": "Ready", "status": "True"}]
        self._tell(path, {"metadata": {"uid": uid}, "status": {"phase": "Running", "conditions": ready}})

    def _end_pods(self) -> None:
        """Finish each deletion when its grace period is over, or as soon as its processes have ended."""
        while not self._stopping.wait(_TICK_S):
            with self._lock:
                doomed = list(self._doomed.items())
            for uid, (due, pod) in doomed:
                running = self._pods.get(uid)
                if running is None and time.monotonic() < due:
                    continue
                if running is not None:
                    running.stop(max(0.0, due - time.monotonic()))
                self._delete(pod)
                self._forget(uid)

    def _delete(self, pod: Json) -> None:
        meta = pod["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        with _gone_is_fine():
            self._api.request(
                "DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", options
            )

    def _forget(self, uid: str) -> None:
        with self._lock:
            self._doomed.pop(uid, None)
            running = self._pods.pop(uid, None)
        if running is not None:
            running.stop(0.0)

    def _tell(self, path: str, status: Json) -> None:
        """Report a status; a pod that is gone needs none."""
        with _gone_is_fine():
            self._api.patch(path, status, STRATEGIC)


@contextlib.contextmanager
def _gone_is_fine() -> Iterator[None]:
    """Gone, or another one of the same name."""
    try:
        yield
    except ApiError as error:
        if error.status not in (404, 409):
            raise
