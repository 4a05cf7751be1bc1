"""Parts of GPUs by claim: where a pod with one goes on small clusters with an obvious right answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from scheduler_ext.core.request.wishes import ANNOTATION_PREFIX
from tests.cli.commands import run
from tests.dra_objects import (
    claim_template,
    device_class,
    gpu_device,
    request,
    resource_claim,
    resource_slice,
)
from tests.kube_objects import Json, inventory, node, pod

_GPU_GI = 80
_CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "asked"}]
# What claims hold of each GPU of a node, in GiB, in the order of its slice.
_Cluster = Mapping[str, Sequence[int]]


def objects(held_gi: _Cluster) -> list[Json]:
    found: list[Json] = [device_class()]
    for name, gpus in held_gi.items():
        devices = [
            gpu_device(i, node=name, memory=f"{_GPU_GI}Gi", allowMultipleAllocations=True)
            for i in range(len(gpus))
        ]
        found += [node(name), resource_slice(name, devices)]
        for i, gi in enumerate(gpus):
            if gi:
                holder = resource_claim(f"{name}-{i}", on=name, devices=[f"gpu-{i}"])
                (result,) = holder["status"]["allocation"]["devices"]["results"]
                result["consumedCapacity"] = {"memory": f"{gi}Gi"}
                found.append(holder)
    return found


def best(folder: Path, held_gi: _Cluster, asked: Json, **wishes: str) -> list[str]:
    """The nodes where a pod with one claim goes."""
    cluster, pods = folder / "cluster.json", folder / "pod.json"
    cluster.write_bytes(inventory(*objects(held_gi)))
    annotations = {ANNOTATION_PREFIX + name: value for name, value in wishes.items()}
    one = pod("train", annotations=annotations, resourceClaims=_CLAIMS)
    pods.write_bytes(inventory(claim_template("asked", asked), one))
    result = run("explain", "-f", pods, "--inventory", cluster, "-o", "json")
    assert result.exit_code == 0, result.output
    found: list[str] = json.loads(result.stdout)["best"]
    return found


def part(gi: int) -> Json:
    return request(1, capacity={"requests": {"memory": f"{gi}Gi"}})


@pytest.mark.parametrize(
    ("held_gi", "asked", "expected"),
    [
        pytest.param(
            {"empty": [0, 0], "used": [40, 0]},
            part(40),
            ["used"],
            id="a GPU in use is filled before one is opened",
        ),
        pytest.param(
            {"last": [0, 40], "first": [40, 0]},
            part(40),
            ["first"],
            id="kube-scheduler takes the first GPU that fits, so that the other node would open one",
        ),
        pytest.param(
            {"empty": [0, 0], "used": [40, 0]},
            request(1),
            ["used"],
            id="a whole GPU leaves two idle ones together",
        ),
        pytest.param(
            {"one": [20, 20], "two": [0, 40]}, request(1), ["two"], id="a whole GPU needs an idle one"
        ),
    ],
)
def test_where_a_part_goes(tmp_path: Path, held_gi: _Cluster, asked: Json, expected: list[str]) -> None:
    assert best(tmp_path, held_gi, asked) == expected


def simulated(folder: Path, held_gi: _Cluster, *asked: Json) -> list[str | None]:
    """Where pods with one claim each go, one after the other."""
    cluster, pods = folder / "cluster.json", folder / "pods.json"
    cluster.write_bytes(inventory(*objects(held_gi)))
    lot: list[Json] = []
    for i, each in enumerate(asked):
        claims = [{"name": "gpu", "resourceClaimTemplateName": f"asked-{i}"}]
        lot += [claim_template(f"asked-{i}", each), pod(f"p{i}", resourceClaims=claims)]
    pods.write_bytes(inventory(*lot))
    result = run("simulate", "cluster", "--cluster", cluster, "--pods", pods, "-o", "json")
    return [item["node"] for item in json.loads(result.stdout)["items"]]


@pytest.mark.parametrize(
    ("held_gi", "asked", "expected"),
    [
        pytest.param(
            {"n": [0]}, [part(50), part(30), request(1)], ["n", "n", None], id="a GPU is full to the last MiB"
        ),
        pytest.param(
            {"n": [0, 0]}, [part(10), request(1), part(70)], ["n", "n", "n"], id="parts, and the rest whole"
        ),
        pytest.param({"n": [20, 0]}, [part(60), request(1)], ["n", "n"], id="beside what claims hold"),
    ],
)
def test_a_simulation_fills_gpus_as_kube_scheduler_does(
    tmp_path: Path, held_gi: _Cluster, asked: list[Json], expected: list[str | None]
) -> None:
    assert simulated(tmp_path, held_gi, *asked) == expected
