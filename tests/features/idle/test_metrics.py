"""Idle GPUs and idle pods, in /metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler_ext.features.idle.metrics import IdleText
from scheduler_ext.server.metrics import namespaces
from scheduler_ext.server.metrics.gpu_metrics import Detail, GpuText
from scheduler_ext.wire.config import Configuration
from tests.kube_idle import CLUSTER, WHOLE, running
from tests.kube_objects import Json, gpu, gpu_node, holder, node
from tests.server.followed import Followed

RESOURCES = Configuration().resource_names()


def idle_text(
    source: Followed, detail: Detail = "node", wall_time: Callable[[], float] = time.time
) -> IdleText:
    return IdleText(source, GpuText(source, RESOURCES, 10, detail), 1800, detail, wall_time)


def scraped(source: Followed, detail: Detail = "node") -> dict[str, float]:
    return series(idle_text(source, detail))


def series(idle: IdleText) -> dict[str, float]:
    """All series, without their common beginning."""
    lines = [line for line in idle.render().decode().splitlines() if not line.startswith("#")]
    parts = (line.rpartition(" ") for line in lines)
    return {name.removeprefix("gpu_extender_"): float(value) for name, _, value in parts}


def test_gpus_and_pods_of_a_cluster() -> None:
    """The pod `new` holds a GPU that was idle before it came. Nothing says whether `unseen` computes, but it
    has not opened its GPU."""
    assert scraped(Followed(*CLUSTER)) == {
        'gpus_idle{hostname="h100",modelName="H100-80GB"}': 1,
        'gpus_idle{hostname="t4",modelName="T4"}': 1,
        'gpus_idle{hostname="plain",modelName="T4"}': 1,
        'idle_pods{namespace="lab"}': 1,
        'idle_pods{namespace="prod"}': 1,
    }


def test_the_level_of_clusters() -> None:
    assert scraped(Followed(*CLUSTER), "cluster") == {
        'gpus_idle{modelName="H100-80GB"}': 1,
        'gpus_idle{modelName="T4"}': 2,
        'idle_pods{namespace="lab"}': 1,
        'idle_pods{namespace="prod"}': 1,
    }


def test_an_old_report_makes_nothing_idle() -> None:
    found = scraped(Followed(*CLUSTER, freshness="Stale"))
    assert {each for name, each in found.items() if name.startswith("gpus_idle")} == {0}
    assert not any(name.startswith("idle_pods") for name in found)


def test_an_overdue_report_makes_nothing_idle_where_nodes_count_by_their_labels() -> None:
    source = Followed(*CLUSTER)
    assert source.snapshot is not None
    infos = [node.info for node in source.snapshot.nodes.values()]
    source.set(replace(info, freshness="Missing", by_allocatable=True) for info in infos)
    assert sum(scraped(source).values()) == 0


def test_a_pod_becomes_idle_between_two_scrapes() -> None:
    later_s = 0.0
    text = idle_text(Followed(*CLUSTER), wall_time=lambda: time.time() + later_s)
    assert series(text)['idle_pods{namespace="prod"}'] == 1
    later_s = 1800.0
    found = series(text)
    assert found['idle_pods{namespace="prod"}'] == 2
    assert found['gpus_idle{hostname="t4",modelName="T4"}'] == 2


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        pytest.param({"idleSeconds": 0}, 0, id="a GPU that computes, with no memory in use"),
        pytest.param({}, 1, id="no readings, and no process has opened it"),
        pytest.param(
            {"memory": {"totalMiB": 15360, "usedMiB": 9000}}, 0, id="no readings, and memory in use"
        ),
        pytest.param(
            {"memory": {"totalMiB": 15360, "usedMiB": 9000}, "idleSeconds": 7200},
            1,
            id="a GPU that computes nothing, with memory in use",
        ),
    ],
)
def test_readings_come_before_memory(device: Json, expected: int) -> None:
    built = gpu(0, model="T4", total=15360, holders=[holder("p")]) | device
    found = scraped(Followed(node("n", {WHOLE: "1"}), gpu_node("n", [built]), running("p", "n", 9000)))
    assert found['gpus_idle{hostname="n",modelName="T4"}'] == expected


@pytest.mark.parametrize("other_idle_s", [60, 9000], ids=["beside a busy GPU", "beside an idle GPU"])
def test_a_gpu_with_readings_never_counts_by_memory(other_idle_s: int) -> None:
    """The pod `pair` has a second GPU that no agent has seen: it is not judged, and its GPU is unopened."""
    gpus = [
        gpu(0, "GPU-0", idleSeconds=other_idle_s, holders=[holder("lazy")]),
        gpu(1, "GPU-1", idleSeconds=60, holders=[holder("pair")]),
        gpu(2, "GPU-2"),
    ]
    pair = running("pair", "n", 9000)
    pair["spec"]["containers"][0]["resources"] = {"limits": {WHOLE: "2"}}
    source = Followed(node("n", {WHOLE: "3"}), gpu_node("n", gpus), running("lazy", "n", 9000), pair)
    (idle,) = (each for name, each in scraped(source).items() if name.startswith("gpus_idle"))
    assert idle == (other_idle_s == 9000)


def test_many_namespaces_are_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "MAX_NAMESPACES", 1)
    found = scraped(Followed(*CLUSTER))
    pods = {name: value for name, value in found.items() if name.startswith("idle_pods")}
    assert pods == {'idle_pods{namespace="lab"}': 1, 'idle_pods{namespace="_others"}': 1}
