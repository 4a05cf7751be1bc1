"""Latency of filter at its two extremes: for a pod that fits on every node, and for one that fits on none.

    python -m benchmarks.filtering --nodes 100,1000,5000 --json FILE

The real server answers on a busy cluster, one caller on one kept connection. Each extreme is measured with
pods whose requests all differ, and with pods whose requests are all equal, for which decisions are
remembered; the rounds alternate between all of them, so that a busy machine slows all alike. Figures are
medians over the rounds.

An extender that runs elsewhere is measured in the same way, with a pod and the names of nodes that it knows:

    python -m benchmarks.filtering --url http://HOST:PORT --pod pod.json --names names.txt
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import os
import random
import shlex
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.busy_cluster import ASKS, CASES, node_names, pods, write_busy_cluster
from benchmarks.connection import Connection, exchange
from benchmarks.processes import ProcessError, extender_command, running_server
from benchmarks.replies import ReplyError, read_filter
from benchmarks.report import aligned, percentile_us
from scheduler_ext.machine import describe_machine, machine_line

_SEED = 42
_TIMEOUT_S = 60.0


def requests(names: Sequence[str], asking: Iterator[bytes], seed: int) -> Iterator[bytes]:
    """The bodies of requests by these pods about all names, in another order each time."""
    rng = random.Random(seed)
    quoted = [json.dumps(name) for name in names]
    for pod in asking:
        rng.shuffle(quoted)
        yield b'{"Pod":%b,"Nodes":null,"NodeNames":[%b]}' % (pod, ",".join(quoted).encode())


def ask(connection: Connection, path: str, bodies: Iterator[bytes], case: str | None) -> list[int]:
    """Nanoseconds of each answer. Raises ProcessError for an answer that does not match the case; None
    accepts either.
    """
    elapsed = []
    for body in bodies:
        (reply,) = exchange([connection], [connection.request(path, body)], _TIMEOUT_S)
        if reply.status != 200:
            raise ProcessError(f"filter: {reply.error or reply.status} {reply.body[:200]!r}")
        try:
            returned = read_filter(reply.body).returned
        except ReplyError as error:
            raise ProcessError(str(error)) from error
        if case is not None and bool(returned) != (case == "fits"):
            raise ProcessError(f"{len(returned)} nodes were returned for a pod of the case {case!r}")
        elapsed.append(reply.elapsed_ns)
    return elapsed


def measure(
    url: str, sources: Mapping[tuple[str, ...], Iterator[bytes]], rounds: int, count: int
) -> dict[tuple[str, ...], list[list[int]]]:
    """That many answers in each round, by source; the key of a source begins with its case, if it has one."""
    connection = Connection(url)
    path = f"{urlsplit(url).path.rstrip('/')}/filter"
    measured: dict[tuple[str, ...], list[list[int]]] = {key: [] for key in sources}
    gc.collect()
    with contextlib.closing(connection):
        # The first round warms up.
        for number in range(rounds + 1):
            for key, bodies in sources.items():
                elapsed = ask(connection, path, itertools.islice(bodies, count), key[0] if key else None)
                if number:
                    measured[key].append(elapsed)
    return measured


def figures(rounds: Sequence[Sequence[int]]) -> dict[str, float]:
    """Medians over rounds of nanoseconds, in microseconds."""

    def median(percent: float) -> float:
        return round(statistics.median(percentile_us(each, percent) or 0.0 for each in rounds), 1)

    return {"p50Us": median(50), "p99Us": median(99)}


def measure_own(nodes: int, rounds: int, count: int) -> list[dict[str, Any]]:
    """The rows of this project's extender at that number of nodes."""
    with tempfile.TemporaryDirectory(prefix="filtering-") as folder:
        inventory = Path(folder) / "inventory.json"
        write_busy_cluster(inventory, nodes, _SEED)
        names = node_names(nodes)
        sources: dict[tuple[str, ...], Iterator[bytes]] = {
            (case, asks): requests(names, pods(case, asks, _SEED), _SEED) for case in CASES for asks in ASKS
        }
        with running_server(extender_command(inventory), "api") as url:
            measured = measure(url, sources, rounds, count)
    return [
        {"nodes": nodes, "case": case, "asks": asks, **figures(measured[case, asks])}
        for case, asks in sources
    ]


def measure_other(url: str, pod: bytes, names: Sequence[str], rounds: int, count: int) -> dict[str, Any]:
    """The row of any extender, for one pod that is sent again and again."""
    # On one line, as kube-scheduler sends it.
    asking = itertools.repeat(json.dumps(json.loads(pod), separators=(",", ":")).encode())
    measured = measure(url, {(): requests(names, asking, _SEED)}, rounds, count)
    return {"nodes": len(names), "url": url, **figures(measured[()])}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as aligned columns, times in milliseconds."""
    lines: list[tuple[str, ...]] = [("NODES", "CASE", "ASKS", "P50 MS", "P99 MS")]
    lines += [
        (
            str(row["nodes"]),
            str(row.get("case", "")),
            str(row.get("asks", "")),
            *(f"{row[key] / 1000:.2f}" for key in ("p50Us", "p99Us")),
        )
        for row in rows
    ]
    return aligned(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.filtering")
    parser.add_argument("--nodes", default="100,1000,5000", help="numbers of nodes, separated by commas")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--requests", type=int, default=100, help="of each round")
    parser.add_argument("--json", type=Path, help="write the report here")
    parser.add_argument("--smoke", action="store_true", help="seconds: 100 nodes, one round")
    parser.add_argument("--url", help="drive this extender, with --pod and --names")
    parser.add_argument("--pod", type=Path, help="the pod to ask for, as JSON")
    parser.add_argument("--names", type=Path, help="the nodes to ask about, a name on each line")
    asked = parser.parse_args()
    if asked.smoke:
        asked.nodes, asked.rounds, asked.requests = "100", 1, 10
    if bool(asked.url) != bool(asked.pod) or bool(asked.url) != bool(asked.names):
        parser.error("--url, --pod and --names go together")
    machine = describe_machine()
    try:
        if asked.url:
            names = asked.names.read_text().split()
            rows = [measure_other(asked.url, asked.pod.read_bytes(), names, asked.rounds, asked.requests)]
        else:
            rows = []
            for nodes in asked.nodes.split(","):
                rows += measure_own(int(nodes), asked.rounds, asked.requests)
    except ProcessError as error:
        parser.exit(1, f"error: {error}\n")
    print(machine_line(machine))
    print(table(rows))
    if asked.json is not None:
        report = {
            "apiVersion": "cli.scheduler-ext.io/v1alpha1",
            "kind": "FilteringReport",
            "machine": machine,
            # The machine line was written earlier: other processes may have started in the minutes between.
            "loadAverage1mAfter": round(os.getloadavg()[0], 2),
            "command": shlex.join(["python", "-m", "benchmarks.filtering", *sys.argv[1:]]),
            "rounds": asked.rounds,
            "requestsPerRound": asked.requests,
            "rows": rows,
        }
        asked.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
