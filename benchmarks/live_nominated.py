"""The cost of a nominated pod for filter while snapshots are published; a part of `make bench-live`.

    python -m benchmarks.live_nominated --nodes 5000 --json FILE

An extender in this process, with nodes that are nearly all different. One thread publishes 40 times a second,
each time after a share was added to a node or removed, as bindings do; another asks filter as kube-scheduler
does. Rounds have three phases, so that a busy machine slows all alike: no publications; publications;
publications while a pod is nominated, whose place all other pods must respect. The benchmark fails if the
last phase takes more than twice as long as the one before.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.filtering import requests
from benchmarks.inventory import write_inventory
from benchmarks.pods import pod_json
from benchmarks.report import aligned, percentile_us
from benchmarks.shapes import SHAPES
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.request import GpuRequest, ShareRequest
from scheduler_ext.extender.extender import Extender
from scheduler_ext.machine import describe_machine, machine_line
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects

PHASES = ("still", "publications", "nominated")
PER_SECOND = 40
_SEED = 42
_KIND = "share"
# kube-scheduler asks about the next pod after it has bound the last one.
_PAUSE_S = 0.005
_DEADLINE_S = 60.0
# The accepted ratio of the slowest of a hundred requests with a nominated pod.
MOST = 2.0
_OF_PUBLICATIONS = ("publicationP50Us", "publicationP99Us")


@dataclass(slots=True)
class Phase:
    """Nanoseconds of each answer and of each publication."""

    filters: list[int] = field(default_factory=list)
    publications: list[int] = field(default_factory=list)


class Publisher:
    """Publishes from its own thread while its context is entered."""

    def __init__(self, extender: Extender, infos: Sequence[NodeInfo]) -> None:
        self.elapsed_ns: list[int] = []
        self._extender = extender
        self._infos = infos
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def __enter__(self) -> Publisher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        start = time.monotonic()
        for number in itertools.count(1):
            if self._stopped.wait(max(0.0, start + number / PER_SECOND - time.monotonic())):
                return
            info = self._infos[number * 7919 % len(self._infos)]
            if number // len(self._infos) % 2 == 0:
                info = replace(info, pods=(*info.pods, _pod(f"share-{number}", 512, priority=0)))
            begun = time.perf_counter_ns()
            self._extender.update_nodes({info.name: info})
            self.elapsed_ns.append(time.perf_counter_ns() - begun)


def _pod(name: str, mib: int, priority: int) -> BoundPod:
    request = GpuRequest(shares=ShareRequest((("main", mib),)), priority=priority)
    return BoundPod(name, "default", name, priority, request)


def _cluster(nodes: int) -> list[NodeInfo]:
    config = Configuration()
    with tempfile.TemporaryDirectory(prefix="live-") as folder:
        path = Path(folder) / "inventory.json"
        write_inventory(path, _KIND, nodes, _SEED)
        return list(assemble(read_objects(path.read_bytes()), config.resource_names()).values())


def _ask(extender: Extender, bodies: Iterator[bytes], seconds: float) -> list[int]:
    elapsed: list[int] = []
    until = time.monotonic() + seconds
    while not elapsed or time.monotonic() < until:
        body = next(bodies)
        begun = time.perf_counter_ns()
        extender.filter(body, time.monotonic() + _DEADLINE_S)
        elapsed.append(time.perf_counter_ns() - begun)
        time.sleep(_PAUSE_S)
    return elapsed


def measure(nodes: int, rounds: int, seconds: float) -> dict[str, Any]:
    """The report, as plain JSON values."""
    extender = Extender(Configuration())
    infos = _cluster(nodes)
    extender.replace_nodes(infos)
    rng = random.Random(_SEED)
    asking = (pod_json(shape, rng) for shape in itertools.cycle(SHAPES[_KIND]))
    bodies = requests([info.name for info in infos], asking, _SEED)
    # One node is set aside for the nominated pod; the others change.
    waits, changing = infos[0], infos[1:]
    nominated = replace(waits, nominated=(_pod("nominated", 8192, priority=1000),))
    _ask(extender, bodies, 1.0)
    gc.collect()
    gc.freeze()
    measured: dict[str, list[Phase]] = {phase: [] for phase in PHASES}
    for _ in range(rounds):
        measured["still"].append(Phase(_ask(extender, bodies, seconds)))
        for phase in PHASES[1:]:
            extender.update_nodes({waits.name: nominated if phase == "nominated" else waits})
            with Publisher(extender, changing) as publisher:
                found = _ask(extender, bodies, seconds)
            measured[phase].append(Phase(found, publisher.elapsed_ns))
        extender.update_nodes({waits.name: waits})
    gc.unfreeze()
    assert extender.snapshot is not None
    return {
        "machine": describe_machine(),
        "nodes": nodes,
        "distinctStates": len(set(extender.snapshot.states)),
        "publicationsPerSecond": PER_SECOND,
        "rounds": rounds,
        "secondsPerPhase": seconds,
        "phases": {phase: _figures(phase, measured) for phase in PHASES},
    }


def _figures(phase: str, measured: dict[str, list[Phase]]) -> dict[str, float]:
    """Medians over the rounds; ratios are to the phase of the same round with publications alone."""

    def median(lists: Sequence[Sequence[int]], percent: float) -> float:
        return round(statistics.median(percentile_us(each, percent) or 0.0 for each in lists), 1)

    filters = [each.filters for each in measured[phase]]
    published = [each.publications for each in measured[phase] if each.publications]
    alone = [percentile_us(each.filters, 99) or 1.0 for each in measured["publications"]]
    ratios = [(percentile_us(each, 99) or 0.0) / base for each, base in zip(filters, alone, strict=True)]
    figures = {
        "p50Us": median(filters, 50),
        "p99Us": median(filters, 99),
        "p99ToPublications": round(statistics.median(ratios), 2),
        "p99ToPublicationsMax": round(max(ratios), 2),
        "requests": sum(map(len, filters)),
    }
    if published:
        figures |= dict(zip(_OF_PUBLICATIONS, (median(published, 50), median(published, 99)), strict=True))
    return figures


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live_nominated")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each phase")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--smoke", action="store_true", help="small and short: does it run?")
    asked = parser.parse_args()
    if asked.smoke:
        asked.nodes, asked.rounds, asked.seconds = 200, 1, 1.0
    report = measure(asked.nodes, asked.rounds, asked.seconds)
    if asked.json is not None:
        asked.json.write_text(json.dumps(report, indent=2) + "\n")
    print(machine_line(report["machine"]))
    print(f"{report['nodes']} nodes in {report['distinctStates']} states, {PER_SECOND} publications a second")
    keys = ("p50Us", "p99Us", "p99ToPublications", "p99ToPublicationsMax", "requests", *_OF_PUBLICATIONS)
    rows = [("phase", "p50 us", "p99 us", "p99 ratio", "worst round", "requests", "publish p50", "p99")]
    rows += [(name, *(str(each.get(key, "")) for key in keys)) for name, each in report["phases"].items()]
    print(aligned(rows))
    ratio = report["phases"]["nominated"]["p99ToPublications"]
    if ratio > MOST and not asked.smoke:
        parser.exit(
            1, f"error: a nominated pod makes the p99 of filter {ratio} times as long; at most {MOST:g}\n"
        )


if __name__ == "__main__":
    main()
