"""The benchmark's workload: deterministic, well formed, half of it rejected according to its own file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cluster import KINDS
from benchmarks.inventory import write_inventory
from benchmarks.shapes import SHAPES, PodShape
from benchmarks.workload import Workload

NODES = 200
PREFIX = "gpu.scheduler-ext.io/"
Report = dict[str, Any]


def _objects(path: Path, kind: str) -> dict[str, Report]:
    items = json.loads(path.read_text(encoding="utf-8"))["items"]
    return {item["metadata"]["name"]: item for item in items if item["kind"] == kind}


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    path = tmp_path_factory.mktemp("inventory") / "inventory.json"
    write_inventory(path, request.param, NODES, seed=7)
    return request.param, path


def _unheld(report: Report) -> list[Report]:
    devices = report["status"]["devices"]
    return [d for d in devices if d["health"]["state"] == "Healthy" and not d["holders"]]


def _whole_fits(report: Report, shape: PodShape) -> bool:
    wanted = sum(int(asks["nvidia.com/gpu"]) for asks in shape.containers)
    return len(_unheld(report)) >= wanted


def _share_fits(report: Report, shape: PodShape) -> bool:
    """Largest share first onto the emptiest GPU, which decides these workloads exactly."""
    free: list[int] = []
    for device in report["status"]["devices"]:
        memory = device["memory"]
        requested = sum(holder["memoryMiB"] for holder in device["holders"])
        used = max(requested, memory["usedMiB"] - memory["unaccountedMiB"])
        headroom = -(-memory["totalMiB"] // 10)
        free.append(memory["totalMiB"] - memory["reservedMiB"] - memory["unaccountedMiB"] - used - headroom)
    for share in sorted((int(asks[f"{PREFIX}memory-mib"]) for asks in shape.containers), reverse=True):
        free.sort()
        free[-1] -= share
    return all(mib >= 0 for mib in free)


def _mig_fits(report: Report, shape: PodShape) -> bool:
    instances = [i for device in report["status"]["devices"] for i in device["mig"]["instances"]]
    wanted: dict[str, int] = {}
    for asks in shape.containers:
        for resource, count in asks.items():
            profile = resource.removeprefix("nvidia.com/mig-")
            wanted[profile] = wanted.get(profile, 0) + int(count)
    free = [instance["profile"] for instance in instances if "holder" not in instance]
    return all(free.count(profile) >= count for profile, count in wanted.items())


FITS: dict[str, Callable[[Report, PodShape], bool]] = {
    "whole": _whole_fits,
    "share": _share_fits,
    "mig": _mig_fits,
}


def _model_fits(report: Report, shape: PodShape) -> bool:
    device = report["status"]["devices"][0]
    models = shape.annotations.get(f"{PREFIX}model")
    if models and not any(device["model"] in (name, f"{name}-80GB") for name in models.split(",")):
        return False
    return float(device["computeCapability"]) >= float(
        shape.annotations.get(f"{PREFIX}min-compute-capability", 0)
    )


def test_every_shape_is_refused_by_exactly_half_of_the_nodes(cluster: tuple[str, Path]) -> None:
    kind, path = cluster
    reports = _objects(path, "GPUNode")
    workload = Workload(kind, NODES, seed=7)
    for shape in SHAPES[kind]:
        refused = {
            name
            for name, report in reports.items()
            if not (_model_fits(report, shape) and FITS[kind](report, shape))
        }
        assert len(refused) == NODES // 2, shape
        assert workload.rejected(shape) == refused


def test_no_two_shapes_of_a_rotation_ask_the_same() -> None:
    for kind in KINDS:
        shapes = SHAPES[kind]
        assert len({json.dumps([shape.containers, shape.annotations]) for shape in shapes}) == len(shapes)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    for file, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_inventory(tmp_path / file, "share", 20, seed)
    first, again, other = ((tmp_path / file).read_bytes() for file in "abc")
    assert first == again != other

    def bodies(seed: int) -> list[bytes]:
        workload = Workload("mig", 50, seed)
        pods = workload.pods()
        return [workload.filter_body(next(pods)) for _ in range(15)]

    assert bodies(1) == bodies(1) != bodies(2)
