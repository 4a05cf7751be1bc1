"""GPUs that a real kube-scheduler hands out by ResourceClaims, alone and with the extender: `python -m
benchmarks.claims`.

A control plane on this machine has nodes of a trace, whose GPUs are in ResourceSlices, and pods of the trace
that ask for them by claims: whole GPUs, or parts as consumable capacity. They ask more than there is. The
stock kube-scheduler and the one of `manifests/overlays/dra` bind the same pods in the same order, one after
the other, each on the empty cluster. Pods arrive ten a second: in a burst, decisions follow each other faster
than the extender learns of them. The result is the part of all GPUs that bound pods hold.

The trace names a part of any GPU in thousandths. All GPUs are published as one model with equal memory, so
that a part is a number of MiB.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.placement.inputs import Trace, made_up, read_folder
from scheduler_ext.core.request.quantity import BYTES_PER_MIB, parse_quantity
from scheduler_ext.machine import describe_machine, machine_line
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, TracePod
from scheduler_ext.sim.world import TraceNode
from tests.dra_objects import request, resource_claim
from tests.e2e.cluster.api import Json
from tests.e2e.cluster.binaries import chosen_minor
from tests.e2e.dra.dra_workload import ROOT, DraWorkload, running_dra_installation
from tests.e2e.installation import Installation

SCHEDULERS = {"stock": "default-scheduler", "ours": "gpu-scheduler"}
_MODEL = "A100-80GB"
_GPU_MIB = 81_920
# Nothing was bound or refused for so long: all that fit are bound.
_QUIET_S = 8.0
_MOST_S = 420.0


@dataclass(frozen=True, slots=True)
class Result:
    """The allocated parts of all GPUs in percent, by scheduler, and the number of bound pods."""

    seed: int
    gpus: int
    pods: int
    asked_percent: float
    allocated_percent: dict[str, float]
    bound: dict[str, int]


def part_of(trace: Trace, nodes: int, demand: float, seed: int) -> tuple[list[TraceNode], list[TracePod]]:
    """Some nodes with GPUs, and pods in random order that ask `demand` times their GPUs."""
    draw = random.Random(seed)
    shapes = draw.sample([shape for shape in trace.nodes if shape.gpus], nodes)
    most_milli = demand * sum(shape.gpus for shape in shapes) * GPU_MILLI
    pods: list[TracePod] = []
    asked_milli = 0
    while asked_milli < most_milli:
        pods.append(draw.choice(trace.pods))
        asked_milli += pods[-1].kind.demand_milli
    return shapes, pods


def add_nodes(workload: DraWorkload, shapes: Sequence[TraceNode]) -> None:
    """Nodes whose GPUs claims may have whole or in part."""

    def add(number: int, shape: TraceNode) -> None:
        room = {"cpu": f"{shape.cpu_milli}m", "memory": f"{shape.memory_mib}Mi"}
        name = workload.add_node(f"n{number}", room)
        devices = [workload.device(name, i, _MODEL, allowMultipleAllocations=True) for i in range(shape.gpus)]
        workload.publish_slice(name, devices)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(len(shapes)), shapes))
    workload.await_known()


def asked(kind: PodKind) -> Json:
    """What a pod's claim requests."""
    if not kind.is_share:
        return request(kind.gpus)
    memory = f"{_GPU_MIB * kind.gpu_milli // GPU_MILLI}Mi"
    return request(1, capacity={"requests": {"memory": memory}})


def create(
    workload: DraWorkload, pods: Sequence[TracePod], scheduler: str, per_s: float
) -> Iterator[tuple[str, TracePod]]:
    """Create the pods in their order, so many a second, each with its claim; their names."""
    claims = f"{ROOT}/namespaces/{workload.namespace}/resourceclaims"
    start = time.monotonic()
    for number, each in enumerate(pods):
        time.sleep(max(0.0, start + number / per_s - time.monotonic()))
        requests = {"cpu": f"{each.kind.cpu_milli}m", "memory": f"{each.kind.memory_mib}Mi"}
        resources: Json = {"requests": requests}
        container = {"name": "main", "image": "train:1", "resources": resources}
        spec: Json = {}
        if each.kind.gpus:
            name = f"claim-{number}"
            body = resource_claim(name, asked(each.kind))
            body["metadata"] = {"name": name, "namespace": workload.namespace}
            workload.api.create(claims, body)
            resources["claims"] = [{"name": "gpu"}]
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        pod = workload.pod(scheduler=scheduler, containers=[container], **spec)
        yield workload.create(pod), each


def settled(workload: DraWorkload) -> set[str]:
    """The names of the bound pods, as soon as no more is bound."""
    changed_at, start = time.monotonic(), time.monotonic()
    before: tuple[set[str], set[str]] = set(), set()
    while time.monotonic() - start < _MOST_S:
        pods = workload.all_pods()
        bound = {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}
        refused = {
            pod["metadata"]["name"]
            for pod in pods
            for condition in pod["status"].get("conditions", ())
            if (condition["type"], condition["status"]) == ("PodScheduled", "False")
        }
        if (bound, refused) != before:
            before, changed_at = (bound, refused), time.monotonic()
        elif len(bound | refused) == len(pods) and time.monotonic() - changed_at > _QUIET_S:
            return bound
        time.sleep(1.0)
    raise click.ClickException(f"pods were not settled within {_MOST_S:.0f} s")


def measure(
    installation: Installation,
    shapes: Sequence[TraceNode],
    pods: Sequence[TracePod],
    seed: int,
    per_s: float,
) -> Result:
    """Bind the pods with each scheduler."""
    gpus = sum(shape.gpus for shape in shapes)
    allocated, counts = {}, {}
    for name, scheduler in SCHEDULERS.items():
        with DraWorkload(installation) as workload:
            add_nodes(workload, shapes)
            kinds = dict(create(workload, pods, scheduler, per_s))
            bound = settled(workload)
            held_milli = sum(kinds[pod].kind.demand_milli for pod in bound)
            allocated[name] = round(100 * held_milli / (gpus * GPU_MILLI), 2)
            counts[name] = len(bound)
            _check(workload)
    demand_milli = sum(pod.kind.demand_milli for pod in pods)
    return Result(seed, gpus, len(pods), round(100 * demand_milli / (gpus * GPU_MILLI), 2), allocated, counts)


def _check(workload: DraWorkload) -> None:
    """Fail if claims hold more of a GPU than it has."""
    held_mib: Counter[tuple[str, str]] = Counter()
    for claim in workload.claims():
        allocation = claim.get("status", {}).get("allocation", {})
        for each in allocation.get("devices", {}).get("results", ()):
            part = each.get("consumedCapacity", {}).get("memory")
            mib = _GPU_MIB if part is None else int(parse_quantity(part)) // BYTES_PER_MIB
            held_mib[each["pool"], each["device"]] += mib
    over = [key for key, mib in held_mib.items() if mib > _GPU_MIB]
    if over:
        raise click.ClickException(f"claims hold more than there is of {over[0]}")


@click.command()
@click.option("--traces", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--variant", default="default", show_default=True, help="Name of the trace in --traces.")
@click.option("--nodes", default=60, show_default=True, type=click.IntRange(1))
@click.option("--demand", default=1.3, show_default=True, help="GPUs that pods ask, over all GPUs.")
@click.option("--seeds", default="42,43,44", show_default=True)
@click.option("--per-second", default=10.0, show_default=True, help="Pods that arrive in a second.")
@click.option("--whole", is_flag=True, help="Without pods that ask a part of a GPU.")
@click.option("--json", "json_file", type=click.Path(path_type=Path))
def main(
    traces: Path | None,
    variant: str,
    nodes: int,
    demand: float,
    seeds: str,
    per_second: float,
    whole: bool,
    json_file: Path | None,
) -> None:
    """Measure how many GPUs claims get from a stock kube-scheduler, and from one with the extender.

    --traces is a folder of openb traces; without it, pods of the generator.
    """
    (trace,) = (read_folder(traces, variant) if traces else made_up()).values()
    if whole:
        trace = Trace(trace.nodes, tuple(pod for pod in trace.pods if not pod.kind.is_share))
    results = []
    with (
        tempfile.TemporaryDirectory() as folder,
        running_dra_installation(Path(folder)) as installation,
    ):
        click.echo(f"{'SEED':<6}{'GPUS':>6}{'PODS':>6}{'ASKED':>8}{'STOCK':>8}{'OURS':>8}{'MORE':>7}")
        for seed in map(int, seeds.split(",")):
            result = measure(installation, *part_of(trace, nodes, demand, seed), seed, per_second)
            results.append(result)
            stock, ours = result.allocated_percent["stock"], result.allocated_percent["ours"]
            click.echo(
                f"{seed:<6}{result.gpus:>6}{result.pods:>6}{result.asked_percent:>8}{stock:>8}{ours:>8}"
                f"{ours - stock:>+7.2f}"
            )
    more = statistics.median(
        each.allocated_percent["ours"] - each.allocated_percent["stock"] for each in results
    )
    machine = describe_machine()
    click.echo(f"median {more:+.2f} points; kube-scheduler {chosen_minor()}; {machine_line(machine)}")
    if json_file is not None:
        report = {
            "machine": machine,
            "kubernetes": chosen_minor(),
            "trace": variant if traces else "generated",
            "nodes": nodes,
            "demand": demand,
            "podsPerSecond": per_second,
            "whole": whole,
            "results": [
                {
                    "seed": each.seed,
                    "gpus": each.gpus,
                    "pods": each.pods,
                    "askedPercent": each.asked_percent,
                    "allocatedPercent": each.allocated_percent,
                    "bound": each.bound,
                }
                for each in results
            ],
        }
        json_file.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
