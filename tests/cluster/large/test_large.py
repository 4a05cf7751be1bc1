"""The large cluster: valid objects of real size that agree with each other."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.objects import assemble, read_objects
from tests.cluster.api.api_client import Client
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.cluster.large import large
from tests.cluster.large.large_server import Events, fill
from tests.kube_objects import Json, inventory
from tests.pages import ROOT

CRD = ROOT / "manifests" / "base" / "crd.yaml"
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def faults(path: str, schema: Json, value: object) -> Iterator[str]:
    """The violations of a structural schema by a value; CEL rules are not evaluated."""
    if not isinstance(value, TYPES[schema["type"]]):
        yield f"{path}: {value!r} is no {schema['type']}"
    elif isinstance(value, dict):
        yield from (f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value)
        yield from (f"{path}.{name} is unknown" for name in value if name not in schema["properties"])
        for name, part in value.items():
            yield from faults(f"{path}.{name}", schema["properties"].get(name, {"type": "object"}), part)
    elif isinstance(value, list):
        if len(value) > schema["maxItems"]:
            yield f"{path} has {len(value)} items"
        for part in value:
            yield from faults(f"{path}[]", schema["items"], part)
    elif isinstance(value, str):
        fits = len(value) <= schema.get("maxLength", 1024) and re.search(schema.get("pattern", ""), value)
        if not fits or value not in schema.get("enum", (value,)):
            yield f"{path}: {value!r}"
    elif isinstance(value, int) and not schema.get("minimum", 0) <= value <= schema.get("maximum", 1):
        yield f"{path}: {value}"


def test_a_report_fits_the_custom_resource_definition_and_the_reader() -> None:
    (version,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    for found in large.gpunodes(20, pods=300):
        assert list(faults("status", schema, found["status"])) == []
        report = nodes_of(found)[found["metadata"]["name"]].report
        assert report is not None
        summary = found["status"]["summary"]
        used = sum(device.memory.used_mib for device in report.devices)
        total = sum(device.memory.total_mib for device in report.devices)
        assert summary == {
            "gpus": len(report.devices),
            "healthy": sum(device.healthy for device in report.devices),
            "model": report.devices[0].model.name,
            "memoryUsedPercent": used * 100 // total,
        }


def nodes_of(*objects: Json) -> dict[str, NodeInfo]:
    return dict(assemble(read_objects(inventory(*objects)), ResourceNames()))


def test_a_report_says_what_its_agent_applied() -> None:
    (found,) = large.gpunodes(1)
    (entry,) = found["metadata"]["managedFields"]
    told = {key: entry[key] for key in ("manager", "operation", "apiVersion", "subresource")}
    assert told == {
        "manager": "scheduler-ext-agent",
        "operation": "Apply",
        "apiVersion": "gpu.scheduler-ext.io/v1alpha1",
        "subresource": "status",
    }
    assert len(large.placement(0, 1)) == 0


@pytest.mark.parametrize(
    ("make", "size"),
    [
        pytest.param(lambda: large.nodes(20), 8000, id="a Node has some 8 kB"),
        pytest.param(lambda: large.gpunodes(20, pods=200), 8000, id="a GPUNode has some 8 kB"),
        pytest.param(lambda: large.pods(200, 20), 8000, id="a Pod has some 8 kB"),
    ],
)
def test_objects_have_the_size_of_real_ones(make: Callable[[], Iterator[Json]], size: int) -> None:
    sizes = [len(json.dumps(found, separators=(",", ":"))) for found in make()]
    assert size * 0.85 < sum(sizes) / len(sizes) < size * 1.15


def test_the_large_cluster_is_always_the_same() -> None:
    def everything() -> list[Json]:
        large.placement.cache_clear()
        return [*large.nodes(3), *large.gpunodes(3, pods=100), *large.pods(100, 3)]

    assert everything() == everything()


def test_pods_with_gpus_are_where_the_reports_say_and_within_capacity() -> None:
    reports, pods = list(large.gpunodes(10, 2, 150)), list(large.pods(150, 10, 2))
    asking = [pod for pod in pods if "nvidia.com/gpu" in pod["spec"]["containers"][0]["resources"]["limits"]]
    bound = Counter(pod["spec"]["nodeName"] for pod in asking if pod["status"]["phase"] == "Running")
    assert (len(asking), bound.total()) == (15, 15)
    assert max(bound.values()) <= 2
    nodes = nodes_of(*large.nodes(10, 2), *reports, *pods)
    for name, info in nodes.items():
        assert info.report is not None
        held = [holder for device in info.report.devices for holder in device.holders]
        assert len(held) == bound[name]
        assert all(any(pod.is_holder(holder) for pod in info.pods) for holder in held)


def test_pods_for_which_no_gpu_is_left_are_pending() -> None:
    phases = Counter(pod["status"]["phase"] for pod in large.pods(100, 2, 2))
    assert phases == {"Running": 94, "Pending": 6}
    assert all(
        "nodeName" in pod["spec"] for pod in large.pods(100, 2, 2) if pod["status"]["phase"] == "Running"
    )


def test_events_are_nine_pods_to_one_node() -> None:
    with ApiServer() as server:
        fill(server.store, 4, 40)
        nodes, pods = server.store.collection(NODES), server.store.collection(PODS)
        assert (len(nodes), len(pods), len(server.store.collection(GPU_NODES))) == (4, 40, 4)
        before = nodes.end(), pods.end()
        names = [(pod.namespace or "", pod.name) for pod in pods.current()]
        events = Events(server.store, names, [large.node_name(index) for index in range(4)], 1)
        for _ in range(100):
            events.make()
        assert (nodes.end() - before[0], pods.end() - before[1]) == (10, 90)


def test_the_command_serves_a_cluster_that_changes() -> None:
    command = [sys.executable, "-m", "tests.cluster.api.api_server", "--nodes=3", "--pods=30"]
    with subprocess.Popen(
        [*command, "--events-per-second=200"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as running:
        try:
            assert running.stdout is not None
            told = re.fullmatch(r"ready (\S+) kubeconfig=(\S+)\n", running.stdout.readline())
            assert told is not None
            config = yaml.safe_load(Path(told[2]).read_text())
            assert config["clusters"][0]["cluster"]["server"] == told[1]
            client = Client(told[1])
            listed = client.list(PODS)
            assert len(listed["items"]) == 30
            with client.watch(PODS, resourceVersion=listed["metadata"]["resourceVersion"]) as lines:
                seen = [lines.event() for _ in range(20)]
            assert {event["type"] for event in seen} == {"MODIFIED"}
            client.close()
        finally:
            running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    assert not Path(told[2]).exists()
