"""Whether the server stays quick, and its memory constant, while a large gang waits.

    python -m benchmarks.soak_gang --minutes 30 --nodes 1000 --gang 128 --json FILE (make soak-gang)

`scheduler-ext serve` follows an API server, on which a gang waits for nodes without other pods. Four pods
without a stated end run on each node on average, and 50 times a second the status of a pod or a node changes,
so the planner plans again and again. Clients send filter, scrapes, probes, and requests for the queue and the
page's stream of changes.

The run fails as `benchmarks.soak` does, and if no places are kept for the gang at the end. It prints the
processor time that the server took.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.connection import Connection, exchange
from benchmarks.large.large import GPU_EVERY
from benchmarks.live import await_ready, filter_requests, running_api
from benchmarks.page_watcher import Watcher
from benchmarks.processes import extender_command, running_process
from benchmarks.soak import Counts, end, fetch, loaded, worker_of
from scheduler_ext.features.gangs.planning.plan import State
from scheduler_ext.wire.config import API_VERSION, KIND

_CONFIG = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    # On a busy machine answers are late, which does not count here.
    "server": {"decisionDeadline": "60s"},
    "nominate": {"enabled": True, "gangs": {"enabled": True, "keepFor": "24h", "keepPercent": 100}},
}
_PODS_PER_NODE = 4 * GPU_EVERY
_EVENTS_PER_SECOND = 50.0
_WARM_UP_PODS = 6000


def soak(minutes: float, nodes: int, gang: int, warm_up_pods: int = _WARM_UP_PODS) -> dict[str, Any]:
    """The report as plain JSON values."""
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        pods = _PODS_PER_NODE * nodes
        api_server, kubeconfig = stack.enter_context(running_api(nodes, pods, _EVENTS_PER_SECOND, gang=gang))
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(_CONFIG))
        command = extender_command(Path(kubeconfig), config, "--kubeconfig")
        url_of, pid = stack.enter_context(running_process(command))
        health, inspect = url_of("health"), url_of("inspect")
        await_ready(health)
        connection = Connection(url_of("api"))
        stack.callback(connection.close)
        requests = filter_requests(connection, nodes)

        def next_pod() -> None:
            (reply,) = exchange([connection], [next(requests)], 30)
            counts.add("filter", reply.status, reply.body or reply.error.encode())

        for _ in range(warm_up_pods):
            next_pod()
        api_server.send_signal(signal.SIGUSR1)
        loads: Mapping[Callable[[], object], float] = {
            next_pod: 0.02,
            lambda: fetch(f"{health}/metrics", "scrape", counts): 1.0,
            lambda: fetch(f"{health}/readyz?verbose", "probe", counts): 0.5,
            lambda: fetch(f"{inspect}/queue", "queue", counts): 2.0,
            Watcher(f"{inspect}/page/events").ask: 1.0,
        }
        worker = worker_of(pid)
        before_s = processor_s(worker)
        result = loaded(worker, minutes, loads, counts)
        used = (processor_s(worker) - before_s) / (60 * minutes)
        if (state := _state(f"{inspect}/queue")) != State.RESERVED.value:
            result["wrong"].append(f"queue: the gang is {state}")
    return {"nodes": nodes, "gang": gang, "processors": round(used, 3), **result}


def processor_s(pid: int) -> float:
    """The processor time of a process until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _state(url: str) -> str | None:
    """How the gang stands."""
    with urllib.request.urlopen(url, timeout=30) as reply:
        items = json.load(reply)["items"]
    return next((str(each["state"]) for each in items if each.get("gang")), None)


def main() -> None:
    """The command line; status 1 if an answer was wrong, memory grew, or no places are kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak_gang")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gang", type=int, default=128, help="pods that each ask a whole node")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    result = soak(asked.minutes, asked.nodes, asked.gang)
    print(f"{result['processors']:.2f} processors were busy with the server")
    end(result, asked.json)


if __name__ == "__main__":
    main()
