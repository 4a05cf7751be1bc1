"""Whether the server's memory stays constant under mixed load.

    python -m benchmarks.soak --minutes 30 --nodes 500 --json FILE (make soak MINUTES=30)

`scheduler-ext serve` follows an inventory file that changes every few seconds, while clients send filter,
prioritize, preempt, explanations by name and by manifest, scrapes, probes and requests for the page's stream
of changes. Each pod has its own identity, some scrapes are not read, and some connections end after one
request.

The resident memory of the worker process is sampled four times a second. Data that the server keeps on
purpose, such as the record of decisions, fills first: a burst of pods comes before the first sample. The run
fails if an answer is wrong, or if memory grows over the last half by more than `Growth` tolerates.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from benchmarks.cluster import KINDS, node_state
from benchmarks.connection import Connection, exchange
from benchmarks.inventory import node_objects, write_objects
from benchmarks.page_watcher import Watcher
from benchmarks.processes import extender_command, running_process
from benchmarks.replies import read_filter
from benchmarks.workload import BenchmarkPod, Workload, prioritize_body
from scheduler_ext.machine import describe_machine, machine_line
from scheduler_ext.wire.config import API_VERSION, KIND

SEED = 42
# On a busy machine answers are late, which does not count here.
_CONFIG = {"apiVersion": API_VERSION, "kind": KIND, "server": {"decisionDeadline": "60s"}}
_SAMPLE_S = 0.25
_PER_MINUTE = int(60 / _SAMPLE_S)
# As many decisions as the default configuration keeps, and some more.
_WARM_UP_PODS = 6000
_RELOAD_EVERY_S = 3.0
# One node out of this many differs after a reload.
_CHANGED = 10
# Tolerated growth over the last half: half a scrape of 5,000 nodes.
_TOLERATED_MIB = 3.0
# Neighbouring samples are correlated; the means of this many stretches of the last half are not.
_STRETCHES = 10
# Student's t for them (8 degrees of freedom): growth is significant at 99 %.
_T = 2.896


@dataclass(frozen=True, slots=True)
class Growth:
    """The change of memory over `minutes`: the slope of a straight line through the means of `_STRETCHES`
    stretches, in MiB a minute, and its uncertainty at 99 %.
    """

    slope: float
    error: float
    minutes: float

    @classmethod
    def of(cls, mib: Sequence[float], minutes: float) -> Growth:
        """The growth over samples that are evenly spread over that many minutes."""
        size = len(mib) // _STRETCHES
        means = [statistics.fmean(mib[-size * n :][:size]) for n in range(_STRETCHES, 0, -1)]
        at = [minutes * (n + 0.5) / _STRETCHES for n in range(_STRETCHES)]
        slope, intercept = statistics.linear_regression(at, means)
        left = sum((mean - slope * x - intercept) ** 2 for x, mean in zip(at, means, strict=True))
        spread = sum((x - statistics.fmean(at)) ** 2 for x in at)
        return cls(slope, _T * (left / (_STRETCHES - 2) / spread) ** 0.5, minutes)

    @property
    def flat(self) -> bool:
        """Whether the noise of the samples allows that memory did not grow by more than is tolerated."""
        return (self.slope - self.error) * self.minutes <= _TOLERATED_MIB


class Counts:
    """Answers by kind of request, and the first few wrong ones. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.answers: Counter[str] = Counter()
        self.wrong: list[str] = []

    def add(self, kind: str, status: int, body: bytes) -> None:
        with self._lock:
            self.answers[kind] += 1
            # Explanations take turns, and a client that waited for a second is asked to come again.
            busy = status == 503 and b"other pods are being explained" in body
            if status != 200 and not busy and len(self.wrong) < 10:
                self.wrong.append(f"{kind}: {status} {body[:200]!r}")


class Inventory:
    """A file of nodes of all kinds, a part of them different each time it is written."""

    def __init__(self, path: Path, nodes: int) -> None:
        self._path = path
        self._objects = [self._node(index, 0) for index in range(nodes)]
        self._version = 0
        self.write()

    @staticmethod
    def _node(index: int, version: int) -> list[dict[str, Any]]:
        kind = KINDS[index // 4 % len(KINDS)]
        return list(node_objects(kind, index, SEED, node_state(kind, index, SEED + version)))

    def write(self) -> None:
        """Write the next version, which replaces the last one atomically."""
        self._version += 1
        for index in range(self._version % _CHANGED, len(self._objects), _CHANGED):
            self._objects[index] = self._node(index, self._version)
        fresh = self._path.with_suffix(".new")
        write_objects(fresh, (each for node in self._objects for each in node))
        fresh.replace(self._path)


class Scheduler:
    """kube-scheduler's requests, pod after pod, and the questions about each pod."""

    def __init__(self, number: int, nodes: int, api: str, inspect: str, counts: Counts) -> None:
        self._workloads = [Workload(kind, nodes, SEED + number) for kind in KINDS]
        self._pods = [workload.pods() for workload in self._workloads]
        self._api = Connection(api)
        self._inspect = inspect
        self._counts = counts
        self._asked = 0

    def next_pod(self, explain: bool = True) -> None:
        """Filter and prioritize; preempt if no node fits; an explanation of some."""
        workload = self._workloads[self._asked % len(KINDS)]
        pod = next(self._pods[self._asked % len(KINDS)])
        self._asked += 1
        body = self._ask("filter", workload.filter_body(pod))
        fitting = read_filter(body).returned if body else ()
        if fitting:
            self._ask("prioritize", prioritize_body(pod, fitting))
        if explain and (not fitting or self._asked % 10 == 0):
            self._ask("preempt", _preempt_body(pod, workload.names[:20]))
        if explain and self._asked % 50 == 0:
            self._explain(pod)

    def close(self) -> None:
        """Stop asking."""
        self._api.close()

    def _ask(self, verb: str, body: bytes) -> bytes:
        (reply,) = exchange([self._api], [self._api.request(f"/{verb}", body)], 30)
        self._counts.add(verb, reply.status, reply.body or reply.error.encode())
        return reply.body if reply.status == 200 else b""

    def _explain(self, pod: BenchmarkPod) -> None:
        manifest = json.loads(pod.json)
        name = "/".join(manifest["metadata"][key] for key in ("namespace", "name"))
        fetch(f"{self._inspect}/explain?{urlencode({'pod': name, 'nodes': 5})}", "explain", self._counts)
        body = json.dumps({"apiVersion": "v1", "kind": "Pod", **manifest}).encode()
        fetch(f"{self._inspect}/explain?nodes=5", "explain-manifest", self._counts, body)


def _preempt_body(pod: BenchmarkPod, names: Sequence[str]) -> bytes:
    victims = {name: {"Pods": [{"UID": f"nobody-{name}"}], "NumPDBViolations": 0} for name in names}
    return b'{"Pod":%b,"NodeNameToMetaVictims":%b}' % (pod.json, json.dumps(victims).encode())


def fetch(url: str, kind: str, counts: Counts, body: bytes | None = None) -> None:
    """One request on a connection of its own."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            counts.add(kind, reply.status, reply.read())
    except urllib.error.HTTPError as error:
        counts.add(kind, error.code, error.read())
    except OSError as error:
        counts.add(kind, 0, str(error).encode())


def ask_and_leave(url: str) -> None:
    """A scrape whose client disconnects without reading it."""
    host = urlsplit(url)
    with socket.create_connection((host.hostname, host.port), timeout=30) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: soak\r\n\r\n")
        sock.recv(100)


def resident_mib(pid: int) -> float:
    """The resident memory of a process."""
    kib = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert kib is not None
    return int(kib[1]) / 1024


def worker_of(pid: int) -> int:
    """The worker process of a server."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@contextmanager
def repeating(every_s: float, act: Callable[[], object], counts: Counts) -> Iterator[None]:
    """Act again and again in a thread, at most this often; an exception counts as a wrong answer."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(every_s):
            try:
                act()
            except Exception as error:
                counts.add("client", 0, repr(error).encode())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def soak(minutes: float, nodes: int, warm_up_pods: int = _WARM_UP_PODS) -> dict[str, Any]:
    """Load a server for that long, and print its memory every minute; the report as plain JSON values."""
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        inventory = Inventory(Path(folder) / "inventory.json", nodes)
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(_CONFIG))
        command = extender_command(Path(folder) / "inventory.json", config)
        url_of, pid = stack.enter_context(running_process(command))
        api, health, inspect = (url_of(name) for name in ("api", "health", "inspect"))
        worker = worker_of(pid)
        schedulers = [Scheduler(number, nodes, api, inspect, counts) for number in range(2)]
        for scheduler in schedulers:
            stack.callback(scheduler.close)
        for _ in range(warm_up_pods):
            schedulers[0].next_pod(explain=False)
        page = Watcher(f"{inspect}/page/events")
        loads: Mapping[Callable[[], object], float] = {
            schedulers[0].next_pod: 0.01,
            schedulers[1].next_pod: 0.03,
            lambda: fetch(f"{health}/metrics", "scrape", counts): 1.0,
            lambda: fetch(f"{health}/readyz?verbose", "probe", counts): 0.5,
            lambda: fetch(f"{inspect}/inventory", "inventory", counts): 5.0,
            lambda: ask_and_leave(health): 2.0,
            page.ask: 1.0,
            inventory.write: _RELOAD_EVERY_S,
        }
        return {"nodes": nodes, **loaded(worker, minutes, loads, counts)}


def loaded(
    worker: int, minutes: float, loads: Mapping[Callable[[], object], float], counts: Counts
) -> dict[str, Any]:
    """The answers and the memory of a worker under these loads, each so many seconds apart."""
    with ExitStack() as stack:
        for act, every_s in loads.items():
            stack.enter_context(repeating(every_s, act, counts))
        mib = list(_sampled(worker, minutes))
    half = mib[len(mib) // 2 :]
    growth = Growth.of(half, minutes / 2)
    return {
        "machine": describe_machine(),
        "minutes": minutes,
        "answers": dict(counts.answers),
        "wrong": counts.wrong,
        "mibByMinute": [
            round(statistics.fmean(mib[at : at + _PER_MINUTE]), 1) for at in range(0, len(mib), _PER_MINUTE)
        ],
        "slopeMibPerMinute": round(growth.slope, 3),
        "errorMibPerMinute": round(growth.error, 3),
        "flat": growth.flat,
    }


def _sampled(worker: int, minutes: float) -> Iterator[float]:
    started = time.monotonic()
    for number in range(int(minutes * _PER_MINUTE)):
        mib = resident_mib(worker)
        if number % _PER_MINUTE == 0:
            print(f"{number // _PER_MINUTE:3} min {mib:7.1f} MiB", flush=True)
        yield mib
        time.sleep(max(0.0, started + (number + 1) * _SAMPLE_S - time.monotonic()))


def main() -> None:
    """The command line; status 1 if an answer was wrong or memory grew."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    end(soak(asked.minutes, asked.nodes), asked.json)


def end(result: dict[str, Any], json_file: Path | None) -> NoReturn:
    """Write and print what `loaded` found; status 1 if an answer was wrong or memory grew."""
    if json_file is not None:
        json_file.write_text(json.dumps(result, indent=2) + "\n")
    print(machine_line(result["machine"]))
    print(f"{sum(result['answers'].values())} answers: {result['answers']}")
    slope, error = result["slopeMibPerMinute"], result["errorMibPerMinute"]
    verdict = "flat" if result["flat"] else "grows"
    print(f"last half: {slope:+.3f} MiB a minute, give or take {error:.3f}: {verdict}")
    for wrong in result["wrong"]:
        print(f"wrong: {wrong}")
    sys.exit(0 if result["flat"] and not result["wrong"] else 1)


if __name__ == "__main__":
    main()
