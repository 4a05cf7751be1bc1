"""The command `python -m benchmarks.large.large_server`: a large cluster on a server of its own.

SIGUSR1 starts and stops the events; SIGUSR2 ends all watches and forgets their positions, so that all objects
are listed again.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.large import large
from benchmarks.large.large_dra import serve_dra
from tests.cluster.api.api_faults import End
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import watches
from tests.cluster.api.api_server import ApiServer
from tests.cluster.api.api_store import Store
from tests.kube_objects import Json

# kube-apiserver sends bookmarks about once a minute.
_BOOKMARK_S = 60
# Nine of ten events are about pods.
_NODE_EVERY = 10
# Every node's agent refreshes its report in about this time.
_REPORT_EVERY_S = 60
_MIB = 256
_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2}


class Events:
    """Changes of pods' and nodes' statuses at a rate, on a thread; always the same sequence."""

    def __init__(
        self, store: Store, pods: list[tuple[str, str]], nodes: list[str], per_second: float
    ) -> None:
        self.made = 0
        self._store = store
        self._pods = pods
        self._nodes = nodes
        self._per_second = per_second
        self._random = random.Random(large.SEED)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Events:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def make(self) -> None:
        number = self.made
        if (number % _NODE_EVERY == 0 or not self._pods) and self._nodes:
            self._store.update(NODES, self._random.choice(self._nodes), self._heartbeat)
        elif self._pods:
            namespace, name = self._random.choice(self._pods)
            self._store.update(PODS, name, self._restart, namespace)
        self.made = number + 1

    def _run(self) -> None:
        start = bookmarked = time.monotonic()
        reports_per_event = len(self._nodes) / _REPORT_EVERY_S / self._per_second
        reports = 0.0
        for due in itertools.count():
            if self._stop.wait(max(0, start + due / self._per_second - time.monotonic())):
                return
            self.make()
            reports += reports_per_event
            while reports >= 1:
                reports -= 1
                self._store.update(GPU_NODES, self._random.choice(self._nodes), self._refresh)
            if time.monotonic() - bookmarked > _BOOKMARK_S:
                bookmarked = time.monotonic()
                self._store.bookmark()

    def _heartbeat(self, node: Json) -> Json:
        for condition in node["status"]["conditions"]:
            condition["lastHeartbeatTime"] = self._store.now()
        return node | {}

    def _refresh(self, gpu_node: Json) -> Json:
        """A report with a changed amount of one GPU's memory."""
        status = gpu_node["status"]
        status["sequence"] += 1
        device = self._random.choice(status["devices"])
        device["memory"]["usedMiB"] = device["memory"].get("usedMiB", 0) ^ _MIB
        return reported_now(gpu_node, self._store.now())

    def _restart(self, pod: Json) -> Json:
        for container in pod["status"].get("containerStatuses", ()):
            container["restartCount"] += 1
            container["state"] = {"running": {"startedAt": self._store.now()}}
        return pod | {}


def reported_now(gpu_node: Json, now: str) -> Json:
    """The same report with this time."""
    for entry in gpu_node["metadata"]["managedFields"]:
        entry["time"] = now
    return gpu_node | {}


def fill(store: Store, nodes: int, pods: int, devices: int = large.DEVICES, gang: int = 0) -> None:
    """Put a large cluster into a store, without a history of its creation; with a gang of so many pods."""
    store.put_all(NODES, large.nodes(nodes, devices))
    reports = large.gpunodes(nodes, devices, pods)
    store.put_all(GPU_NODES, (reported_now(report, store.now()) for report in reports))
    store.put_all(PODS, [*large.pods(pods, nodes, devices), *large.gang(gang, pods, devices)])
    store.compact()


def main(arguments: list[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; prints one line when it is ready."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large.large_server")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--devices", type=int, default=large.DEVICES)
    parser.add_argument("--gang", type=int, default=0, help="pods of a gang that each ask a whole node")
    parser.add_argument("--dra", action="store_true", help="GPUs are handed out by DRA")
    parser.add_argument("--events-per-second", type=float, default=0, help="from the start; else SIGUSR1")
    parser.add_argument("--rate", type=float, default=500, help="of events that SIGUSR1 begins")
    asked = parser.parse_args(arguments)
    # Blocked before any thread is started, so that all of them inherit it and the signal waits for sigwait.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    with tempfile.TemporaryDirectory() as folder, ApiServer() as server:
        fill(server.store, asked.nodes, asked.pods, asked.devices, asked.gang)
        if asked.dra:
            serve_dra(server, asked.nodes, asked.pods, asked.devices)
        names = [large.node_name(index) for index in range(asked.nodes)]
        pods = server.store.collection(PODS).current()
        config = server.kubeconfig(Path(folder) / "kubeconfig")
        print(f"ready {server.url} kubeconfig={config}", flush=True)
        running = [(pod.namespace or "", pod.name) for pod in pods if pod.node_name]
        del pods
        rate = asked.events_per_second or asked.rate
        _until_told(server, lambda: Events(server.store, running, names, rate), asked.events_per_second > 0)


def _until_told(server: ApiServer, events: Callable[[], Events], happens: bool) -> None:
    """Act on signals until one ends the server."""
    with contextlib.ExitStack() as happening:
        if happens:
            happening.enter_context(events())
        while True:
            told = signal.sigwait(_SIGNALS)
            if told == signal.SIGUSR1:
                happening.close()
                happens = not happens
                if happens:
                    happening.enter_context(events())
            elif told == signal.SIGUSR2:
                server.store.compact()
                server.faults.place(End("connection"), watches(), times=server.watching())
            else:
                return


if __name__ == "__main__":
    main()
