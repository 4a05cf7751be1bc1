"""The cost of binding by the extender: pods a second beside kube-scheduler's own binder, in the same run.

    python -m benchmarks.binding --json FILE

A control plane on this machine with nodes of eight GPUs, every second one with shares, and one extender that
follows it. Three contenders schedule a queue of pods in turn (benchmarks/scheduler explains the fairness):

default: the extender filters and scores, kube-scheduler binds; each pod requests a whole GPU
ours: the same pods, and the extender binds
ours-share: the extender binds pods that request a share of a GPU, of which a GPU holds several

Each pod that the extender binds costs a PUT of its intent before the POST of its Binding
(docs/decisions/0012-fence.md).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.api_calls import ApiCalls, read_calls
from benchmarks.processes import running_listeners
from benchmarks.report import aligned
from benchmarks.scheduler.block import Block, Running, block_of, run_block
from benchmarks.scheduler.exposition import Exposition
from benchmarks.scheduler.pods import PATH as PODS
from benchmarks.scheduler.pods import delete_pods
from benchmarks.scheduler.suite import turned
from benchmarks.scheduler.summary import Spread, spread
from scheduler_ext.machine import describe_machine, machine_line
from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import Api, eventually
from tests.e2e.cluster.binaries import find_binaries, kubernetes_version
from tests.e2e.cluster.child import Child
from tests.e2e.cluster.control_plane import ControlPlane, running_control_plane
from tests.kube_objects import SHARE, gpu, gpu_node

_ROOT = Path(__file__).resolve().parents[1]
_CRDS = (_ROOT / "manifests/base/crd.yaml", _ROOT / "manifests/components/shares/crd.yaml")
_GPUS, _TOTAL_MIB = 8, 81920
_ROOM_MIB = _TOTAL_MIB - 8192
# A quarter of a GPU's memory for shares. With sizes that do not divide it, pods that are scheduled faster
# than they are bound find a node full, and are tried again.
_ASKED_MIB = _ROOM_MIB // 4
_WARM_UP = 20
_PATIENCE_S = 30.0
_REPORTED_S = 1200.0
_ASK_EVERY_S = 3.0
# Reports are written once, so that no other work runs during the measurement.
_CONFIGURATION = {
    "apiVersion": "config.scheduler-ext.io/v1alpha1",
    "kind": "ExtenderConfiguration",
    "bind": {"enabled": True},
    "inventory": {"staleAfter": "12h", "missingAfter": "24h"},
}
# Columns that only need the median.
_MEDIANS = {
    "BIND MS": "bindMeanMs",
    "BINDING MS": "bindingMeanMs",
    "INTENT MS": "intentMeanMs",
    "INTENTS/BIND": "intentWritesPerBind",
    "READS/BIND": "intentReadsPerBind",
}


@dataclass(frozen=True, slots=True)
class Binder:
    """A contender: the binder, and the request of its pods."""

    name: str
    binds: bool
    limits: tuple[str, str]


DEFAULT = Binder("default", False, ("nvidia.com/gpu", "1"))
BINDERS = (
    DEFAULT,
    Binder("ours", True, DEFAULT.limits),
    Binder("ours-share", True, (SHARE, str(_ASKED_MIB))),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One contender in one round; `bind_ms` comes from the extender's own metrics, None if it does not bind.

    `calls` is the API server's count during the block. Repeated attempts are the block's errors; `unbound`
    are pods that were never bound.
    """

    block: Block
    bind_ms: float | None
    calls: ApiCalls
    unbound: int


def node_name(number: int) -> str:
    """Every second node has shares."""
    return f"n-{number:05}"


def create_nodes(api: Api, nodes: Sequence[int]) -> None:
    """Nodes with the resources that the kubelet and the extender advertise. Raises ApiError."""

    def create(number: int) -> None:
        shared = number % 2 == 1
        room = {"cpu": "192", "memory": "2048Gi", "pods": "110"}
        room |= {SHARE: str(_GPUS * _ROOM_MIB)} if shared else {"nvidia.com/gpu": str(_GPUS)}
        labels = {"gpu.scheduler-ext.io/sharing": "memory"} if shared else {}
        status = {"capacity": room, "allocatable": room}
        meta = {"name": node_name(number), "labels": labels}
        api.create("/api/v1/nodes", {"metadata": meta, "status": status})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, nodes))


def report_nodes(plane: ControlPlane, directory: Path, nodes: int) -> None:
    """Write a report of each node, by one agent that reports for all nodes and then ends."""
    readings = directory / f"readings-{nodes}.yaml"
    reports = [
        gpu_node(name, [gpu(i, f"GPU-{name}-{i}", total=_TOTAL_MIB) for i in range(_GPUS)])
        for name in map(node_name, range(nodes))
    ]
    readings.write_text("\n---\n".join(map(json.dumps, reports)))
    command = [sys.executable, "-m", "scheduler_ext", "agent", "--fake", str(readings)]
    command.append(f"--kubeconfig={plane.kubeconfig('admin')}")
    agent = Child("agent", command, directory / "agent.log")
    path = "/apis/gpu.scheduler-ext.io/v1alpha1/gpunodes"

    def reported() -> bool:
        # Rarely requested, because listing all reports is work that the agent would wait for.
        time.sleep(_ASK_EVERY_S)
        return sum("status" in each for each in plane.api.items(path)) == nodes

    try:
        eventually(reported, "all nodes are reported on", _REPORTED_S)
    finally:
        agent.stop()


@contextlib.contextmanager
def running_extender(plane: ControlPlane, directory: Path, nodes: int) -> Iterator[Running]:
    """The extender, as soon as it knows all nodes."""
    config = directory / "extender.yaml"
    config.write_text(yaml.safe_dump(_CONFIGURATION))
    listen = [f"--{name}listen=127.0.0.1:0" for name in ("", "health-", "inspect-")]
    command = [sys.executable, "-m", "scheduler_ext", "serve", f"--config={config}", *listen]
    with running_listeners([*command, f"--kubeconfig={plane.kubeconfig('admin')}"]) as url_of:
        running = Running(url_of("api"), url_of("health"), binds=True)

        def known() -> bool:
            text = unverified.get(f"{running.health_url}/metrics")
            return Exposition(text).total("gpu_extender_inventory_nodes", state="Fresh") == nodes

        eventually(known, "the extender knows all nodes", _REPORTED_S)
        yield running


def create_pods(api: Api, count: int, limits: tuple[str, str]) -> None:
    """Pods with equal requests, like those of one Deployment. Raises ApiError."""

    def create(number: int) -> None:
        container = {"name": "main", "image": "train:1", "resources": {"limits": dict([limits])}}
        spec = {"schedulerName": "gpu-scheduler", "containers": [container]}
        api.create(PODS, {"metadata": {"name": f"p-{number:05}"}, "spec": spec})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, range(count)))


def measure(
    plane: ControlPlane,
    directory: Path,
    extender: Running,
    binder: Binder,
    nodes: int,
    pods: int,
    number: int,
) -> Measured:
    """One contender's turn on new pods, which are deleted at the end."""
    warm_up = min(_WARM_UP, pods)
    create_pods(plane.api, warm_up + pods, binder.limits)
    before = read_calls(plane.api)
    try:
        running = Running(extender.url, extender.health_url, binder.binds)
        readings = run_block(plane, directory, binder.name, running, warm_up, pods, _PATIENCE_S)
        calls = read_calls(plane.api).since(before)
    finally:
        delete_pods(plane.api)
    block = block_of(binder.name, nodes, number, warm_up + pods, readings)
    bind_ms = None
    if readings.extender is not None:
        then, now = (
            Exposition(text).histogram("gpu_extender_request_duration_seconds", verb="bind")
            for text in readings.extender
        )
        bind_ms = now.since(then).mean_ms
    return Measured(block, bind_ms, calls, warm_up + pods - readings.bound)


def run(sizes: Sequence[int], pods: int, rounds: int) -> list[Measured]:
    """All rounds of all sizes."""
    measured = []
    with tempfile.TemporaryDirectory(prefix="binding-benchmark-") as folder:
        own, control_plane = Path(folder, "benchmark"), Path(folder, "control-plane")
        own.mkdir()
        control_plane.mkdir()
        with running_control_plane(find_binaries(), control_plane) as plane:
            for crd in _CRDS:
                plane.kubectl("apply", "--server-side", "-f", crd)
            present = 0
            for nodes in sizes:
                create_nodes(plane.api, range(present, nodes))
                report_nodes(plane, own, nodes)
                present = nodes
                with running_extender(plane, own, nodes) as extender:
                    for number in range(rounds):
                        # The order rotates, because the machine's speed drifts.
                        for binder in turned(BINDERS, number):
                            found = measure(plane, own, extender, binder, nodes, pods, number)
                            print(_told(found), file=sys.stderr, flush=True)
                            measured.append(found)
    return measured


def _told(found: Measured) -> str:
    block = found.block
    told = (
        f"{block.nodes} nodes, round {block.round + 1}: {block.contender} {block.pods_per_s or 0:.1f} pods/s"
    )
    return "\n  ".join((told, *block.messages))


def rows(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """Each contender at each size: medians of the rounds, and ratios to the default binder of the same
    round.
    """
    found = []
    for nodes, name in dict.fromkeys((each.block.nodes, each.block.contender) for each in measured):
        own = [each for each in measured if (each.block.nodes, each.block.contender) == (nodes, name)]
        other = {
            each.block.round: each.block.pods_per_s
            for each in measured
            if (each.block.nodes, each.block.contender) == (nodes, DEFAULT.name)
        }
        ratios = [
            each.block.pods_per_s / beside
            for each in own
            if each.block.pods_per_s and (beside := other.get(each.block.round))
        ]
        found.append(
            {
                "nodes": nodes,
                "contender": name,
                "rounds": len(own),
                "podsPerSecond": _json(spread(each.block.pods_per_s for each in own)),
                "toDefault": _json(spread(ratios)),
                "bindMeanMs": _json(spread(each.bind_ms for each in own)),
                "bindingMeanMs": _json(spread(each.calls.bindings.mean_ms for each in own)),
                "intentMeanMs": _json(spread(each.calls.written.mean_ms for each in own)),
                "intentWritesPerBind": _json(spread(each.calls.writes_per_bind for each in own)),
                "intentReadsPerBind": _json(spread(each.calls.reads_per_bind for each in own)),
                "failedAttempts": sum(each.block.errors for each in own),
                "unbound": sum(each.unbound for each in own),
            }
        )
    return found


def _json(found: Spread | None) -> dict[str, float] | None:
    return found.as_json() if found is not None else None


def table(found: Sequence[dict[str, Any]]) -> str:
    """The rows as text."""
    lines = [
        ("NODES", "BINDER", "PODS/S", "MIN-MAX", "TO DEFAULT", "MIN-MAX", *_MEDIANS, "FAILED", "UNBOUND")
    ]
    for row in found:
        cells = [cell for key in ("podsPerSecond", "toDefault") for cell in _cells(row[key])]
        cells += [_cells(row[key])[0] for key in _MEDIANS.values()]
        lines.append(
            (str(row["nodes"]), row["contender"], *cells, str(row["failedAttempts"]), str(row["unbound"]))
        )
    return aligned(lines)


def _cells(found: dict[str, float] | None) -> list[str]:
    return (
        ["-", "-"] if found is None else [f"{found['median']:.2f}", f"{found['min']:.2f}-{found['max']:.2f}"]
    )


def main() -> None:
    """The command line; exit 1 if pods were not bound, never for slowness."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.binding")
    parser.add_argument("--nodes", default="1000,5000", help="sizes of the cluster, ascending")
    parser.add_argument("--pods", type=int, default=300, help="measured per contender and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--smoke", action="store_true", help="small and short: does it run?")
    asked = parser.parse_args()
    sizes = sorted(map(int, asked.nodes.split(",")))
    if asked.smoke:
        sizes, asked.pods, asked.rounds = [50], 100, 1
    machine = describe_machine()
    found = rows(run(sizes, asked.pods, asked.rounds))
    print(f"kube-scheduler {kubernetes_version()}, {machine_line(machine)}\n\n{table(found)}")
    if asked.json is not None:
        report = {"machine": machine, "kubernetes": kubernetes_version(), "pods": asked.pods, "rows": found}
        asked.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(any(row["unbound"] for row in found))


if __name__ == "__main__":
    main()
