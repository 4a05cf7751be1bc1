"""The activity of GPUs in /metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scheduler_ext.core.gpu.readings import NodeReadings
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.extender import Extender
from scheduler_ext.server.metrics.gpu_metrics import Detail
from scheduler_ext.server.metrics.registry import Metrics
from scheduler_ext.sources.source_status import Check, SourceStatus
from scheduler_ext.wire.config import Configuration, MetricsSection
from scheduler_ext.wire.objects import assemble, read_objects
from scheduler_ext.wire.readings import readings_of
from tests.kube_objects import Json, gpu, gpu_node, inventory

BUSY: Json = {
    "utilizationPercent": 90,
    "memoryUtilizationPercent": 40,
    "powerWatts": 650,
    "temperatureCelsius": 70,
    "smClockMHz": 1980,
    "throttleReasons": ["PowerCap"],
    "idleSeconds": 0,
    "xids": [{"xid": 31, "count": 3}],
}
QUIET: Json = {"utilizationPercent": 0, "powerWatts": 60, "temperatureCelsius": 30, "idleSeconds": 7200}


class Followed:
    """A source of nodes, and of their readings."""

    binder = None

    def __init__(self) -> None:
        self.extender = Extender(Configuration())
        self.readings: NodeReadings = {}

    @property
    def snapshot(self) -> Snapshot | None:
        return self.extender.snapshot

    def status(self) -> SourceStatus:
        return SourceStatus([Check("inventory", True)], 0.0, readings=self.readings)

    def set(self, *nodes: Json, freshness: str = "Fresh") -> None:
        objects = read_objects(inventory(*nodes))
        infos: list[NodeInfo] = [
            replace(info, freshness=freshness)
            for info in assemble(objects, Configuration().resource_names()).values()
        ]
        self.extender.replace_nodes(infos)
        self.readings = readings_of(objects.gpu_nodes)


def scraped(source: Followed, metrics: Metrics) -> dict[str, float]:
    """The series of the metrics under test, as they are written, without their common beginning."""
    text = b"".join(metrics.render()).decode()
    names = (
        "utilization",
        "memory_utilization",
        "power",
        "temperature",
        "sm_clock",
        "idle",
        "throttled",
        "xid",
    )
    wanted = tuple(f"gpu_extender_device_{name}" for name in names)
    assert list(text_string_to_metric_families(text))
    return {
        series.removeprefix("gpu_extender_device_"): float(value)
        for series, _, value in (line.rpartition(" ") for line in text.splitlines())
        if series.startswith(wanted)
    }


def metrics_of(source: Followed, detail: Detail) -> Metrics:
    return Metrics(source, Configuration(metrics=MetricsSection(detail=detail)))


A = gpu_node(
    "a", [gpu(0, "GPU-a0", product="NVIDIA H100", **BUSY), gpu(1, "GPU-a1", product="NVIDIA H100", **QUIET)]
)
B = gpu_node("b", [gpu(0, "GPU-b0", product="NVIDIA H100", **QUIET), gpu(1, "GPU-b1", product="T4")])


def test_each_gpu_with_the_labels_of_dcgm() -> None:
    source = Followed()
    source.set(A)
    first = 'UUID="GPU-a0",gpu="0",modelName="NVIDIA H100",hostname="a"'
    second = 'UUID="GPU-a1",gpu="1",modelName="NVIDIA H100",hostname="a"'
    assert scraped(source, metrics_of(source, "device")) == {
        f"utilization_ratio{{{first}}}": 0.9,
        f"utilization_ratio{{{second}}}": 0,
        f"memory_utilization_ratio{{{first}}}": 0.4,
        f"power_watts{{{first}}}": 650,
        f"power_watts{{{second}}}": 60,
        f"temperature_celsius{{{first}}}": 70,
        f"temperature_celsius{{{second}}}": 30,
        f"sm_clock_hertz{{{first}}}": 1.98e9,
        f"idle_seconds{{{first}}}": 0,
        f"idle_seconds{{{second}}}": 7200,
        f'throttled{{{first},reason="PowerCap"}}': 1,
        f'xid_errors_total{{{first},xid="31"}}': 3,
    }


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        pytest.param(
            "node",
            {
                'utilization_ratio{hostname="a",modelName="NVIDIA H100"}': 0.45,
                'utilization_ratio{hostname="b",modelName="NVIDIA H100"}': 0,
                'memory_utilization_ratio{hostname="a",modelName="NVIDIA H100"}': 0.4,
                'power_watts{hostname="a",modelName="NVIDIA H100"}': 710,
                'power_watts{hostname="b",modelName="NVIDIA H100"}': 60,
                'temperature_celsius{hostname="a",modelName="NVIDIA H100"}': 70,
                'temperature_celsius{hostname="b",modelName="NVIDIA H100"}': 30,
                'throttled{hostname="a",modelName="NVIDIA H100",reason="PowerCap"}': 1,
                'xid_errors_total{hostname="a",modelName="NVIDIA H100",xid="31"}': 3,
            },
            id="nodes have means and sums of each model",
        ),
        pytest.param(
            "cluster",
            {
                'utilization_ratio{modelName="NVIDIA H100"}': 0.3,
                'memory_utilization_ratio{modelName="NVIDIA H100"}': 0.4,
                'power_watts{modelName="NVIDIA H100"}': 770,
                'temperature_celsius{modelName="NVIDIA H100"}': 70,
                'throttled{modelName="NVIDIA H100",reason="PowerCap"}': 1,
            },
            id="the cluster, too, without counters, whose sum decreases when a node goes",
        ),
    ],
)
def test_several_gpus_together(detail: Detail, expected: dict[str, float]) -> None:
    source = Followed()
    source.set(A, B)
    assert scraped(source, metrics_of(source, detail)) == pytest.approx(expected)


@pytest.mark.parametrize("freshness", ["Stale", "Missing"])
def test_what_an_agent_said_long_ago_is_left_out(freshness: str) -> None:
    source = Followed()
    source.set(A, freshness=freshness)
    assert scraped(source, metrics_of(source, "device")) == {}


def test_a_new_reading_of_an_unchanged_node_is_scraped() -> None:
    source = Followed()
    source.set(B)
    metrics = metrics_of(source, "node")
    scraped(source, metrics)
    snapshot = source.snapshot
    again = gpu_node("b", [gpu(0, "GPU-b0", product="NVIDIA H100", utilizationPercent=70)])
    source.readings = readings_of(read_objects(inventory(again)).gpu_nodes)
    assert source.snapshot is snapshot
    assert scraped(source, metrics) == {'utilization_ratio{hostname="b",modelName="NVIDIA H100"}': 0.7}


def test_throttle_reasons_that_only_a_newer_agent_knows_are_one_series() -> None:
    source = Followed()
    source.set(gpu_node("a", [gpu(0, throttleReasons=["PowerCap", "Humidity", "Noise"])]))
    found = scraped(source, metrics_of(source, "cluster"))
    assert [(name, value) for name, value in found.items() if "throttled" in name] == [
        ('throttled{modelName="A100-80GB",reason="Other"}', 1),
        ('throttled{modelName="A100-80GB",reason="PowerCap"}', 1),
    ]
