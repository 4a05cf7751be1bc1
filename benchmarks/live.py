"""The cost of following a large cluster: time until ready, memory, and the effect of watching on filter's
latency.

    python -m benchmarks.live --nodes 5000 --pods 50000 --json FILE

An API server that replays a cluster (tests/cluster) runs in a process of its own, the extender follows it,
and filter is asked as kube-scheduler asks. Rounds have three phases, so that a busy machine slows all alike:
no events; 500 events a second about pods and nodes, beside the reports of all agents; a new list of
everything, as after a restart of an API server that lost its history.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from operator import truediv
from pathlib import Path
from typing import Any

from benchmarks.connection import Connection, exchange
from benchmarks.large import large
from benchmarks.pods import pod_json
from benchmarks.processes import running_listeners
from benchmarks.report import aligned, percentile_us
from benchmarks.shapes import SHAPES
from scheduler_ext.machine import describe_machine, machine_line

PHASES = ("quiet", "events", "relist")
# kube-scheduler asks about the next pod after it has bound the last one.
_PAUSE_S = 0.005
_SEED = 7
_READY_S = 60.0


# Latencies in nanoseconds by phase.
Round = dict[str, list[int]]


@contextlib.contextmanager
def running_api(
    nodes: int, pods: int, rate: float, *, dra: bool = False, gang: int = 0
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The replaying API server's process, and a kubeconfig for it."""
    command = [sys.executable, "-m", "benchmarks.large.large_server"]
    options = [f"--nodes={nodes}", f"--pods={pods}", f"--rate={rate}", f"--gang={gang}"]
    options += ["--dra"] if dra else []
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            found = re.search(r"kubeconfig=(\S+)", ready)
            if found is None:
                raise RuntimeError(f"the API server did not start: {ready!r}")
            yield process, found[1]
        finally:
            process.terminate()


def filter_requests(connection: Connection, nodes: int) -> Iterator[bytes]:
    """Requests about all nodes, consecutive ones different, the names in another order each time."""
    rng = random.Random(_SEED)
    names = [large.node_name(index) for index in range(nodes)]
    for shape in itertools.cycle(SHAPES["whole"]):
        rng.shuffle(names)
        pod = pod_json(shape, rng)
        body = b'{"Pod":' + pod + b',"Nodes":null,"NodeNames":' + json.dumps(names).encode() + b"}"
        yield connection.request("/filter", body)


def ask(connection: Connection, requests: Iterator[bytes], until: float) -> list[int]:
    """Ask until then, at least once; nanoseconds of each answer. Raises RuntimeError for a failure."""
    elapsed: list[int] = []
    while not elapsed or time.monotonic() < until:
        (reply,) = exchange([connection], [next(requests)], 30.0)
        if reply.error or reply.status != 200:
            raise RuntimeError(f"filter: {reply.status} {reply.error} {reply.body[:200]!r}")
        elapsed.append(reply.elapsed_ns)
        time.sleep(_PAUSE_S)
    return elapsed


def one_round(
    connection: Connection,
    requests: Iterator[bytes],
    api: subprocess.Popen[str],
    health: str,
    seconds: float,
) -> Round:
    """The three phases in order."""
    measured: Round = {}
    measured["quiet"] = ask(connection, requests, time.monotonic() + seconds)
    api.send_signal(signal.SIGUSR1)
    measured["events"] = ask(connection, requests, time.monotonic() + seconds)
    api.send_signal(signal.SIGUSR1)
    time.sleep(1.0)
    api.send_signal(signal.SIGUSR2)
    # Watches that ended are resumed within a second or two; then everything is listed and compared.
    measured["relist"] = ask(connection, requests, time.monotonic() + seconds)
    await_ready(health)
    return measured


def await_ready(health: str) -> float:
    """Seconds until the extender is ready."""
    started = time.monotonic()
    while time.monotonic() - started < _READY_S:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{health}/readyz", timeout=5):
            return time.monotonic() - started
        time.sleep(0.05)
    raise RuntimeError(f"not ready in {_READY_S:g} s")


def memory_mib(child_of: int, key: str) -> int:
    """VmRSS or VmHWM of the server's worker process."""
    children = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    family = {child_of}
    for line in children.stdout.splitlines():
        pid, parent = map(int, line.split())
        if parent in family:
            family.add(pid)
    sizes = []
    for pid in family:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            if "scheduler_ext" in Path(f"/proc/{pid}/cmdline").read_text():
                sizes.append(int(status.partition(f"{key}:")[2].split()[0]) // 1024)
    return max(sizes, default=0)


def run(
    nodes: int, pods: int, rate: float, rounds: int, seconds: float, *, dra: bool = False
) -> dict[str, Any]:
    """The report, as plain JSON values."""
    with running_api(nodes, pods, rate, dra=dra) as (api, kubeconfig):
        listen = [f"--{name}listen=127.0.0.1:0" for name in ("", "health-", "inspect-")]
        serve = [sys.executable, "-m", "scheduler_ext", "serve", "--kubeconfig", kubeconfig, *listen]
        started = time.monotonic()
        with running_listeners(serve) as url_of:
            health = url_of("health")
            await_ready(health)
            ready_s = time.monotonic() - started
            rss_mib = memory_mib(os.getpid(), "VmRSS")
            connection = Connection(url_of("api"))
            requests = filter_requests(connection, nodes)
            ask(connection, requests, time.monotonic() + 1.0)
            measured = [one_round(connection, requests, api, health, seconds) for _ in range(rounds)]
            peak_mib = memory_mib(os.getpid(), "VmHWM")
            connection.close()
    return {
        "machine": describe_machine(),
        "nodes": nodes,
        "pods": pods,
        "dra": dra,
        "eventsPerSecond": rate,
        "rounds": rounds,
        "secondsPerPhase": seconds,
        "readySeconds": round(ready_s, 2),
        "rssMiB": rss_mib,
        "peakMiB": peak_mib,
        "phases": {phase: _phase(phase, measured) for phase in PHASES},
    }


def percentiles_us(rounds: Sequence[Round], phase: str, percent: float) -> list[float]:
    """The percentile of a phase in each round."""
    return [percentile_us(each[phase], percent) or 0.0 for each in rounds]


def _phase(phase: str, rounds: Sequence[Round]) -> dict[str, float]:
    """Medians over the rounds; ratios are to the quiet phase of the same round."""

    def median(percent: float) -> float:
        return round(statistics.median(percentiles_us(rounds, phase, percent)), 1)

    ratios = list(map(truediv, percentiles_us(rounds, phase, 99), percentiles_us(rounds, "quiet", 99)))
    return {
        "p50Us": median(50),
        "p90Us": median(90),
        "p99Us": median(99),
        "p99ToQuiet": round(statistics.median(ratios), 2),
        "p99ToQuietMax": round(max(ratios), 2),
        "requests": sum(len(each[phase]) for each in rounds),
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rate", type=float, default=500, help="events a second")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each phase")
    parser.add_argument("--dra", action="store_true", help="GPUs of ResourceSlices, held by ResourceClaims")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--smoke", action="store_true", help="small and short: does it run?")
    asked = parser.parse_args()
    if asked.smoke:
        asked.nodes, asked.pods, asked.rounds, asked.seconds = 200, 2000, 1, 2.0
    report = run(asked.nodes, asked.pods, asked.rate, asked.rounds, asked.seconds, dra=asked.dra)
    if asked.json is not None:
        asked.json.write_text(json.dumps(report, indent=2) + "\n")
    print(machine_line(report["machine"]))
    print(
        f"{report['nodes']} nodes, {report['pods']} pods: ready after {report['readySeconds']} s, "
        f"{report['rssMiB']} MiB then, {report['peakMiB']} MiB at most"
    )
    rows = [("phase", "p50 us", "p90 us", "p99 us", "p99 to quiet", "worst round", "requests")]
    rows += [(name, *map(str, each.values())) for name, each in report["phases"].items()]
    print(aligned(rows))


if __name__ == "__main__":
    main()
