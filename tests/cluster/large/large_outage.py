"""An API server with a large cluster, in a process of its own, that goes away, changes and comes back.

python -m tests.cluster.large.large_outage --nodes 2000 --pods 20000

It performs each line of its input, and then prints a line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from scheduler_ext.cluster.api_paths import BUDGETS
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.cluster.api.api_store import Store
from tests.cluster.large import large
from tests.cluster.large.large_server import fill, reported_now
from tests.kube_objects import Json

# The changes during the outage.
RESIZED, SICK, FREED, BUDGET = large.node_name(1), large.node_name(2), 0, "budget"


def change(store: Store) -> None:
    """One change of each kind that an extender follows."""

    def resized(node: Json) -> Json:
        node["status"]["allocatable"]["nvidia.com/gpu"] = "3"
        return node | {}

    def sick(gpu_node: Json) -> Json:
        gpu_node["status"]["sequence"] += 1
        gpu_node["status"]["devices"][0]["health"] = {"state": "Unhealthy", "reason": "XID 79"}
        return reported_now(gpu_node, store.now())

    store.update(NODES, RESIZED, resized)
    store.update(GPU_NODES, SICK, sick)
    freed = next(pod for pod in large.pods(FREED + 1, 1))["metadata"]
    store.delete(PODS, freed["name"], freed["namespace"])
    store.put(
        BUDGETS,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": BUDGET, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "train"}}},
            "status": {"disruptionsAllowed": 0},
        },
    )


class LargeOutage:
    """The process; each method returns when it is done."""

    def __init__(self, process: subprocess.Popen[str], kubeconfig: Path) -> None:
        self._process = process
        self.kubeconfig = kubeconfig

    def leave(self, *, compact: bool) -> None:
        """Go away; the cluster changes, and with `compact` its history is forgotten."""
        self._do("leave compact" if compact else "leave")

    def come_back(self, errors_s: float = 0.0) -> None:
        """Answer again; for the first seconds with 503."""
        self._do(f"back {errors_s}")

    def _do(self, line: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != "done\n":
            raise RuntimeError(f"the API server did not {line}")


@contextlib.contextmanager
def running(nodes: int, pods: int) -> Iterator[LargeOutage]:
    """Such a server, ready."""
    command = [sys.executable, "-m", "tests.cluster.large.large_outage", f"--nodes={nodes}", f"--pods={pods}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield LargeOutage(process, Path(process.stdout.readline().strip()))
        finally:
            process.terminate()


def serve(server: ApiServer, asked: IO[str]) -> None:
    """Perform each line until the end of the input."""
    for line in asked:
        what, *how = line.split()
        if what == "leave":
            server.stop()
            change(server.store)
            if how:
                server.store.compact()
        else:
            errors_s = float(how[0])
            if errors_s:
                sick = server.faults.place(Refuse(503), times=None)
                threading.Timer(errors_s, sick.lift).start()
            server.start()
        print("done", flush=True)


def main() -> None:
    """Serve until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.large.large_outage")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--pods", type=int, required=True)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ApiServer() as server:
        fill(server.store, asked.nodes, asked.pods)
        print(json.dumps(str(server.kubeconfig(Path(folder) / "kubeconfig"))).strip('"'), flush=True)
        serve(server, sys.stdin)


if __name__ == "__main__":
    main()
