"""A served inventory scores by the observed pods, and no decision builds a table."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.node.state import cpu_free_milli
from scheduler_ext.core.request.pod_kinds import UNKNOWN, TaskClass, Workload
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.explain.explain import explain
from scheduler_ext.extender.extender import Extender
from scheduler_ext.sources.clusterstate import ClusterState, file_state
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.whatif.whatif import PodInfo, WhatIf
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects, read_pods
from scheduler_ext.wire.pod.pod_needs import pod_needs
from tests.kube_objects import SHARE, Json, gpu, gpu_node, inventory, names_body, node, nodes_body, pod
from tests.whatif.placing import nodes_of

WHOLE = "nvidia.com/gpu"
ROOM = {SHARE: "163840", WHOLE: "8"}
SHARES = {"gpu.scheduler-ext.io/sharing": "memory"}
ONE_G = "nvidia.com/mig-1g.10gb"
SMALL = pod("small", {SHARE: "10240"})
# Of 80 GiB shares may have nine tenths: "empty" takes three of 24,000 MiB or two of 30,000 MiB, "used" one.
NODES = [
    node("empty", ROOM, labels=SHARES),
    node("used", ROOM, labels=SHARES),
    gpu_node("empty", [gpu(0, "GPU-e")]),
    gpu_node("used", [gpu(0, "GPU-u", memory={"totalMiB": 81920, "usedMiB": 81920 * 9 // 10 - 34_816})]),
]


def came(mib: int, count: int = 300) -> list[Json]:
    return [pod(f"came-{i}", {SHARE: str(mib), "cpu": "1"}, on="elsewhere") for i in range(count)]


def read_here(path: Path, *objects: Json) -> Extender:
    """The extender of a file, without the child process that reads a served one."""
    path.write_bytes(inventory(*objects))
    state = file_state(path, Configuration().resource_names())
    extender = Extender(Configuration())
    extender.replace_nodes(state.infos.values(), Forecast(state.workload, ()))
    return extender


def best(extender: Extender, asking: Json = SMALL) -> str:
    answer = extender.prioritize(names_body(asking, ["empty", "used"]), time.monotonic() + 60)
    points: dict[str, int] = {entry["Host"]: entry["Score"] for entry in json.loads(answer.body)}
    return max(points, key=points.__getitem__)


def test_explain_and_a_dry_run_agree_with_the_server(tmp_path: Path) -> None:
    mib, node_name = 24_000, "used"
    path, config = tmp_path / "inventory.yaml", Configuration()
    path.write_bytes(inventory(*NODES, *came(mib)))
    extender = Extender(config)
    InventorySource(path, extender, config.resource_names()).load()
    state = file_state(path, config.resource_names())
    (asking,) = read_pods(inventory(SMALL))
    assert explain(asking, state, config)["best"] == [node_name] == [best(extender)]
    assert nodes_of([SMALL], state) == [node_name]
    assert extender.snapshot is not None
    assert extender.snapshot.forecast.workload == state.workload


def test_a_file_counts_pods_that_wait_as_well(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    waiting = [
        pod("waits", {WHOLE: "2"}),
        pod("fails", {WHOLE: "2"}, phase="Failed"),
        pod("web", {"cpu": "1"}),
    ]
    wrong = pod("wrong", {WHOLE: "1"}, annotations={"gpu.scheduler-ext.io/strategy": "luck"})
    path.write_bytes(inventory(*NODES, *waiting, wrong))
    parts = file_state(path, Configuration().resource_names()).workload.parts
    assert set(parts) == {TaskClass(gpus=2)}
    assert parts[TaskClass(gpus=2)] == pytest.approx(1 / 21, abs=0.001)


def test_another_forecast_is_another_generation(tmp_path: Path) -> None:
    mib, node_name = 30_000, "empty"
    extender = read_here(tmp_path / "inventory.yaml", *NODES)
    before = extender.snapshot
    assert before is not None
    assert before.forecast.workload == UNKNOWN
    assert best(extender) != node_name
    extender.expect(Forecast(Workload.of({TaskClass(shares_mib=(mib,)): 1}), before.kinds))
    assert extender.snapshot is not None
    assert extender.snapshot.generation == before.generation + 1
    assert best(extender) == node_name
    # A change of nodes keeps the table.
    extender.update_nodes({"used": before.nodes["used"].info, "empty": before.nodes["empty"].info})
    assert best(extender) == node_name
    extender.replace_nodes([node.info for node in before.nodes.values()])
    assert best(extender) == node_name


def test_nothing_is_expected_before_there_are_nodes() -> None:
    extender = Extender(Configuration())
    extender.expect(Forecast(UNKNOWN, ()))
    assert extender.snapshot is None


MIG = {
    "enabled": True,
    "instances": [{"uuid": "MIG-0", "profile": "1g.10gb", "start": 0, "size": 1}],
}
MIXED = [
    *NODES,
    node("whole", ROOM),
    gpu_node("whole", [gpu(i, f"GPU-w{i}", model="H100") for i in range(4)]),
    node("mig", {ONE_G: "1"}),
    gpu_node("mig", [gpu(0, "GPU-m", mig=MIG)], migStrategy="mixed"),
    # It keeps a place that some pods do not count.
    pod("nominated", {SHARE: "1024"}, priority=5) | {"status": {"nominatedNodeName": "used"}},
]


def test_no_decision_makes_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extender = read_here(tmp_path / "inventory.yaml", *MIXED, *came(8192))
    extender.expect(Forecast(Workload.of({TaskClass(4000, shares_mib=(7000,)): 1, TaskClass(gpus=2): 1}), ()))
    # A new kind of GPU does when it is heard of.
    other = gpu_node("new", [gpu(0, "GPU-n", model="T4", total=15_360)])
    extender.update_nodes(assemble(read_objects(inventory(other)), Configuration().resource_names()))

    def refuse(*_: object) -> None:
        raise AssertionError("a table was made")

    monkeypatch.setattr("scheduler_ext.core.forecast.forecast.Forecast.__init__", refuse)
    monkeypatch.setattr("scheduler_ext.core.forecast.forecast.residual_values", refuse)
    assert extender.snapshot is not None
    report = extender.snapshot.nodes["empty"].info.report
    extender.update_nodes({"used": replace(extender.snapshot.nodes["used"].info, report=report)})
    names = ["empty", "used", "whole", "mig", "new"]
    for limits in ({SHARE: "10240", "cpu": "2"}, {WHOLE: "2"}, {ONE_G: "1"}, {"cpu": "1"}):
        for asking in (pod("p", limits), pod("p", limits, priority=9)):
            for body in (
                names_body(asking, names),
                names_body(asking, names[:1]),
                nodes_body(asking, [found for found in MIXED if found["kind"] == "Node"]),
            ):
                extender.filter(body, time.monotonic() + 60)
                extender.prioritize(body, time.monotonic() + 60)


def test_a_view_of_an_older_snapshot_expects_the_same(tmp_path: Path) -> None:
    extender = read_here(tmp_path / "inventory.yaml", *MIXED, *came(8192))
    older, generation = extender.snapshot, extender._generation
    assert older is not None
    assert generation is not None
    extender.expect(Forecast(UNKNOWN, older.kinds))
    view = generation.snapshot_with(extender.preemption_answers.nodes_with_nominated_pods(older, "uid-p", 0))
    assert view is not older
    assert view.forecast is older.forecast


def test_an_evicted_pod_frees_its_cpu() -> None:
    """In a live cluster only the CPU of pods without GPUs is known."""
    web = pod("web", {"cpu": "8"}, on="used")
    objects = read_objects(inventory(*NODES, web, pod("other", {"cpu": "4"}, on="used")))
    infos = assemble(objects, Configuration().resource_names())
    infos["used"] = replace(infos["used"], pods=(), cpu_elsewhere_milli=12_000)
    cluster = WhatIf(ClusterState("live", objects, infos), Configuration())
    cluster.evict("used", ["uid-web"])
    assert cluster.infos["used"].cpu_elsewhere_milli == 4000
    (asking,) = read_pods(inventory(pod("p", {"cpu": "2"})))
    cluster.bind(PodInfo(asking, "uid-p", GpuRequest(), pod_needs(asking)), "used")
    assert cpu_free_milli(cluster.infos["used"]) == 56_000
