"""The benchmark's workload: deterministic, well formed, half of it rejected."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from benchmarks.cluster import KINDS
from benchmarks.inventory import write_inventory
from benchmarks.shapes import SHAPES
from benchmarks.workload import Workload
from tests.server.process.product import extender_on

NODES = 200


@pytest.mark.parametrize("kind", KINDS)
def test_every_shape_is_refused_by_exactly_half_of_the_nodes(kind: str, tmp_path: Path) -> None:
    write_inventory(tmp_path / "inventory.json", kind, NODES, seed=7)
    extender = extender_on((tmp_path / "inventory.json").read_bytes())
    workload = Workload(kind, NODES, seed=7)
    for pod in itertools.islice(workload.pods(), workload.rotation):
        answer = json.loads(extender.filter(workload.filter_body(pod), float("inf")).body)
        refused = {*answer["FailedNodes"], *answer["FailedAndUnresolvableNodes"]}
        assert len(refused) == NODES // 2, pod.shape
        assert workload.rejected(pod.shape) == refused


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
