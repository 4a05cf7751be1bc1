"""Defragmentation plans: beside an exhaustive search on small clusters, and their time on a large one.

    python -m benchmarks.defrag --json FILE
    python -m benchmarks.defrag --traces DIR    the large cluster from the openb traces

The small clusters are those of the tests: two to five nodes with whole GPUs, memory shares or MIG, models and
PodDisruptionBudgets. Only clusters count where the exhaustive search, which tries every order, every pod and
every place, lets the waiting pod in by one to three moves. The large cluster is filled by random placement
and then loses a part of its pods, so that many GPUs are free and few together. Times are CPU seconds of the
plan alone, because other processes may slow this machine down.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.placement.inputs import read_folder
from benchmarks.report import aligned
from scheduler_ext.features.defrag.movable import Rules
from scheduler_ext.features.defrag.plan import DefragPlan, make_plan, waiting_pod
from scheduler_ext.machine import describe_machine, machine_line
from scheduler_ext.sim.generator import GENERATED, generate_traces
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, TracePod
from scheduler_ext.sim.world import TraceNode
from scheduler_ext.sources.clusterstate import ClusterState, state_of
from scheduler_ext.wire.config import Configuration, MemorySection
from scheduler_ext.wire.objects import read_objects, read_pods
from tests.features.defrag.exhaustive import fewest_moves
from tests.features.defrag.small_clusters import objects as small_objects
from tests.features.defrag.small_clusters import small_cluster
from tests.kube_objects import ANNOTATION, SHARE, Json, gpu, gpu_node, holder, inventory, node, pod

WHOLE = "nvidia.com/gpu"
# The memory of every GPU of the large cluster, in MiB for each thousandth.
_MIB = 16
# Demand that arrives, relative to the GPUs, and the part of the pods of one GPU at most that leave again.
_ARRIVING, _LEAVING = 2.0, 0.05
_MOST_MOVES = 3
# Every amount of a GPU can be asked, as in the traces.
CONFIGURATION = Configuration(memory=MemorySection(headroom_percent=0))
# The pods that wait: whole GPUs, or thousandths of one.
WAITING: tuple[tuple[str, dict[str, int]], ...] = (
    ("8 GPUs", {WHOLE: 8}),
    ("4 GPUs", {WHOLE: 4}),
    ("2 GPUs", {WHOLE: 2}),
    ("0.9 GPUs", {SHARE: 900 * _MIB}),
)


@dataclass(frozen=True, slots=True)
class Running:
    """A pod of the large cluster on its node and GPUs."""

    name: str
    kind: PodKind
    node: int
    slots: tuple[int, ...]


def plan_for(state: ClusterState, asked: Json) -> tuple[DefragPlan, float]:
    """The plan for a pod, and the CPU seconds that it took."""
    (manifest,) = read_pods(json.dumps(asked).encode())
    wanted = waiting_pod(manifest, state, CONFIGURATION)
    started = time.process_time()
    plan = make_plan([wanted], state, CONFIGURATION, Rules(0.0, time.time()))
    return plan, time.process_time() - started


def measure_small(clusters: int) -> dict[str, Any]:
    """That many clusters with a pod that gets in by moves alone."""
    found = admitted = seed = 0
    ratios = []
    while found < clusters:
        cluster = small_cluster(seed)
        seed += 1
        best = fewest_moves(cluster, _MOST_MOVES)
        if not best:
            continue
        found += 1
        objects = small_objects(cluster)
        *_, asked = (each for each in objects if each["kind"] == "Pod")
        state = _state(objects)
        plan, _ = plan_for(state, asked)
        if plan.complete:
            admitted += 1
            ratios.append(len(plan.moves) / best)
    return {
        "clusters": found,
        "admittedPercent": round(100 * admitted / found, 1),
        "movesToFewest": round(statistics.fmean(ratios), 3),
    }


def _state(objects: Sequence[Json]) -> ClusterState:
    return state_of(read_objects(inventory(*objects)), "benchmark", CONFIGURATION.resource_names())


def filled(shapes: Sequence[TraceNode], pods: Sequence[TracePod], seed: int) -> list[Running]:
    """Pods on random nodes with room; a part of the pods has left again."""
    rng = random.Random(seed)
    rooms = [[GPU_MILLI] * shape.gpus for shape in shapes]
    cpu = [shape.cpu_milli for shape in shapes]
    memory = [shape.memory_mib for shape in shapes]
    most_milli = _ARRIVING * GPU_MILLI * sum(shape.gpus for shape in shapes)
    running: list[Running] = []
    arrived_milli = 0
    while arrived_milli < most_milli:
        kind = rng.choice(pods).kind
        arrived_milli += kind.demand_milli
        if not kind.gpus:
            continue
        for index in rng.sample(range(len(shapes)), 40):
            slots = _slots(kind, rooms[index], shapes[index])
            if slots and cpu[index] >= kind.cpu_milli and memory[index] >= kind.memory_mib:
                for slot in slots:
                    rooms[index][slot] -= kind.gpu_milli
                cpu[index] -= kind.cpu_milli
                memory[index] -= kind.memory_mib
                running.append(Running(f"pod-{len(running)}", kind, index, slots))
                break
    return [each for each in running if each.kind.gpus > 1 or rng.random() >= _LEAVING]


def _slots(kind: PodKind, rooms: Sequence[int], shape: TraceNode) -> tuple[int, ...]:
    if kind.models and shape.model not in kind.models:
        return ()
    free = [slot for slot, room in enumerate(rooms) if room >= kind.gpu_milli]
    return tuple(free[: kind.gpus]) if len(free) >= kind.gpus else ()


def large_objects(shapes: Sequence[TraceNode], running: Sequence[Running]) -> Iterator[Json]:
    """The cluster as an inventory; every pod has a controller."""
    here: dict[int, list[Running]] = {}
    for each in running:
        here.setdefault(each.node, []).append(each)
    for index, shape in enumerate(shapes):
        name, devices = f"node-{index}", []
        for slot in range(shape.gpus):
            whole = [each for each in here.get(index, ()) if slot in each.slots and not each.kind.is_share]
            holders = {"holders": [holder(each.name) for each in whole]} if whole else {}
            devices.append(
                gpu(slot, _uuid(index, slot), total=GPU_MILLI * _MIB, model=shape.model, **holders)
            )
        room = {
            "cpu": f"{shape.cpu_milli}m",
            "memory": f"{shape.memory_mib}Mi",
            WHOLE: str(shape.gpus),
            SHARE: str(shape.gpus * GPU_MILLI * _MIB),
        }
        yield gpu_node(name, devices)
        yield node(name, room)
    yield from map(_pod, running)


def _uuid(index: int, slot: int) -> str:
    return f"GPU-{index}-{slot}"


def _pod(each: Running) -> Json:
    kind = each.kind
    limits = {"cpu": f"{kind.cpu_milli}m", "memory": f"{kind.memory_mib}Mi"}
    limits |= {SHARE: str(kind.gpu_milli * _MIB)} if kind.is_share else {WHOLE: str(kind.gpus)}
    annotations = {f"{ANNOTATION}model": ",".join(kind.models)} if kind.models else {}
    if kind.is_share:
        annotations[f"devices.{ANNOTATION}main"] = _uuid(each.node, each.slots[0])
    made = pod(each.name, limits, on=f"node-{each.node}", annotations=annotations)
    owner = {"kind": "ReplicaSet", "name": each.name, "uid": f"owner-{each.name}", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def measure_large(shapes: Sequence[TraceNode], pods: Sequence[TracePod], seed: int) -> dict[str, Any]:
    """The plans for the waiting pods, each on the cluster as it is at first."""
    shapes = [shape for shape in shapes if shape.gpus]
    running = filled(shapes, pods, seed)
    state = _state(list(large_objects(shapes, running)))
    held_milli = sum(each.kind.demand_milli for each in running)
    gpus = sum(shape.gpus for shape in shapes)
    rows = []
    for name, limits in WAITING:
        asked = pod("waiting", {resource: str(count) for resource, count in limits.items()})
        plan, seconds = plan_for(state, asked)
        (outcome,) = plan.outcomes
        rows.append(
            {
                "waiting": name,
                "fits": plan.complete,
                "moves": len(plan.moves),
                "exhausted": outcome.exhausted,
                "cpuSeconds": round(seconds, 2),
            }
        )
    return {
        "nodes": len(shapes),
        "gpus": gpus,
        "pods": len(running),
        "allocatedPercent": round(held_milli / gpus / GPU_MILLI * 100, 1),
        "plans": rows,
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defrag")
    parser.add_argument(
        "--clusters", type=int, default=200, help="small clusters beside the exhaustive search"
    )
    parser.add_argument("--nodes", type=int, default=1213, help="nodes of the large cluster, if generated")
    parser.add_argument("--traces", type=Path, help="folder with the openb traces, for the large cluster")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--json", type=Path, help="write the report here")
    parser.add_argument("--smoke", action="store_true", help="seconds: few clusters, 60 nodes")
    asked = parser.parse_args()
    if asked.smoke:
        asked.clusters, asked.nodes = 3, 60
    if asked.traces is not None:
        trace = read_folder(asked.traces, "default")["default"]
        shapes, pods = trace.nodes, trace.pods
    else:
        shapes, traces = generate_traces(asked.nodes, 0, "large")
        pods = traces[GENERATED]
    machine = describe_machine()
    large, small = measure_large(shapes, pods, asked.seed), measure_small(asked.clusters)
    print(machine_line(machine))
    print(
        f"{small['clusters']} small clusters: {small['admittedPercent']} % of the pods that an exhaustive "
        f"search lets in get in, with {small['movesToFewest']} times the fewest moves"
    )
    print(
        f"{large['nodes']} nodes, {large['gpus']} GPUs, {large['allocatedPercent']} % of them allocated, "
        f"{large['pods']} pods"
    )
    lines = [("WAITING", "MOVES", "CPU S")]
    for row in large["plans"]:
        moves = str(row["moves"]) if row["fits"] else "no plan"
        lines.append((row["waiting"], moves, f"{row['cpuSeconds']:.2f}"))
    print(aligned(lines))
    if asked.json is not None:
        report = {
            "apiVersion": "cli.scheduler-ext.io/v1alpha1",
            "kind": "DefragmentationReport",
            "machine": machine,
            "small": small,
            "large": large,
        }
        asked.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
