"""The activity of GPUs in /metrics."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scheduler_ext.server.metrics.gpu_metrics import Detail
from scheduler_ext.server.metrics.registry import Metrics
from scheduler_ext.wire.objects import read_objects
from scheduler_ext.wire.readings import readings_of
from tests.kube_idle import BUSY
from tests.kube_objects import Json, gpu, gpu_node, inventory
from tests.server.followed import Followed
from tests.server.test_gpu_metrics import metrics_of

QUIET: Json = {"utilizationPercent": 0, "powerWatts": 60, "temperatureCelsius": 30, "idleSeconds": 7200}


def scraped(metrics: Metrics) -> dict[str, float]:
    """The series of the metrics under test, as they are written, without their common beginning."""
    text = b"".join(metrics.render()).decode()
    names = [
        "utilization",
        "memory_utilization",
        "power",
        "temperature",
        "sm_clock",
        "idle",
        "throttled",
        "xid",
    ]
    wanted = tuple(f"gpu_extender_device_{name}" for name in names)
    assert list(text_string_to_metric_families(text))
    return {
        series.removeprefix("gpu_extender_device_"): float(value)
        for series, _, value in (line.rpartition(" ") for line in text.splitlines())
        if series.startswith(wanted)
    }


A = gpu_node(
    "a", [gpu(0, "GPU-a0", product="NVIDIA H100", **BUSY), gpu(1, "GPU-a1", product="NVIDIA H100", **QUIET)]
)
B = gpu_node("b", [gpu(0, "GPU-b0", product="NVIDIA H100", **QUIET), gpu(1, "GPU-b1", product="T4")])


def test_each_gpu_with_the_labels_of_dcgm() -> None:
    first = 'UUID="GPU-a0",gpu="0",modelName="NVIDIA H100",hostname="a"'
    second = 'UUID="GPU-a1",gpu="1",modelName="NVIDIA H100",hostname="a"'
    assert scraped(metrics_of(Followed(A), "device")) == {
        f"utilization_ratio{{{first}}}": 0.9,
        f"utilization_ratio{{{second}}}": 0,
        f"memory_utilization_ratio{{{first}}}": 0.4,
        f"power_watts{{{first}}}": 650,
        f"power_watts{{{second}}}": 60,
        f"temperature_celsius{{{first}}}": 70,
        f"temperature_celsius{{{second}}}": 30,
        f"sm_clock_hertz{{{first}}}": 1.98e9,
        f"idle_seconds{{{first}}}": 3,
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
    assert scraped(metrics_of(Followed(A, B), detail)) == pytest.approx(expected)


@pytest.mark.parametrize("freshness", ["Stale", "Missing"])
def test_what_an_agent_said_long_ago_is_left_out(freshness: str) -> None:
    assert scraped(metrics_of(Followed(A, freshness=freshness), "device")) == {}


def test_a_new_reading_of_an_unchanged_node_is_scraped() -> None:
    source = Followed(B)
    metrics = metrics_of(source, "node")
    scraped(metrics)
    snapshot = source.snapshot
    again = gpu_node("b", [gpu(0, "GPU-b0", product="NVIDIA H100", utilizationPercent=70)])
    source.tell(readings=readings_of(read_objects(inventory(again)).gpu_nodes))
    assert source.snapshot is snapshot
    assert scraped(metrics) == {'utilization_ratio{hostname="b",modelName="NVIDIA H100"}': 0.7}


def test_throttle_reasons_that_only_a_newer_agent_knows_are_one_series() -> None:
    source = Followed(gpu_node("a", [gpu(0, throttleReasons=["PowerCap", "Humidity", "Noise"])]))
    found = scraped(metrics_of(source, "cluster"))
    assert [(name, value) for name, value in found.items() if "throttled" in name] == [
        ('throttled{modelName="A100-80GB",reason="Other"}', 1),
        ('throttled{modelName="A100-80GB",reason="PowerCap"}', 1),
    ]
