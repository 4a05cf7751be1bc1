"""Real clusters as simulated ones: what is counted, what is held, and what is left out."""

from __future__ import annotations

import pytest

from scheduler_ext.sim.cluster_dump import ClusterDump
from scheduler_ext.sim.policy_comparison import compare_policies
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import Cluster, TraceNode, World
from scheduler_ext.sources.clusterstate import state_of
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_objects, read_pods
from tests.kube_objects import ANNOTATION, GFD_H100, SHARE, Json, gpu, gpu_node, holder, inventory, node, pod

WHOLE = "nvidia.com/gpu"
GPU_2 = gpu_node("n", [gpu(0), gpu(1)])
CONFIG = Configuration()


def dump_of(*objects: Json) -> ClusterDump:
    resources = CONFIG.resource_names()
    return ClusterDump(state_of(read_objects(inventory(*objects)), "file", resources), CONFIG.sizing())


def world_of(*objects: Json) -> World:
    dump = dump_of(*objects)
    world = World(Cluster.of(dump.nodes))
    dump.hold(world)
    return world


def kinds_of(dump: ClusterDump, *pods: Json) -> list[PodKind]:
    return [each.kind for each in dump.trace_pods(read_pods(inventory(*pods)))]


UNLIMITED = (2**30, 10**12)
NODE = (64_000, 512 * 1024)


@pytest.mark.parametrize(
    ("objects", "shape"),
    [
        pytest.param(
            [gpu_node("n", [gpu(0), gpu(1)]), node("n", {WHOLE: "2"})],
            TraceNode("n", *NODE, 2, "A100-80GB"),
            id="a report with its Node",
        ),
        pytest.param(
            [node("n", {WHOLE: "8"}, labels=GFD_H100)],
            TraceNode("n", *NODE, 8, "H100-80GB"),
            id="labels without a report",
        ),
        pytest.param(
            [node("n", {WHOLE: "1"}, labels={"node.kubernetes.io/instance-type": "g6f.xlarge"})],
            TraceNode("n", *NODE, 1, "L4", 0.1),
            id="a fraction of a GPU, with its part of the price",
        ),
        pytest.param(
            [gpu_node("n", [gpu(0, model="T4"), gpu(1), gpu(2)]), node("n", {WHOLE: "2"})],
            TraceNode("n", *NODE, 2, "A100-80GB"),
            id="of several models the commonest, as many as are allocatable",
        ),
        pytest.param(
            [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1", "memory": "120000000E"})],
            TraceNode("n", NODE[0], UNLIMITED[1], 1, "A100-80GB"),
            id="no more memory than counts",
        ),
        pytest.param(
            [gpu_node("n", [gpu(0), gpu(1, health={"state": "Unhealthy", "reason": "XID 79"})])],
            TraceNode("n", *UNLIMITED, 1, "A100-80GB"),
            id="a sick GPU is none",
        ),
        pytest.param(
            [gpu_node("n", [gpu(0), gpu(1, mig={"enabled": True, "instances": []})])],
            TraceNode("n", *UNLIMITED, 1, "A100-80GB"),
            id="a GPU in MIG mode is none",
        ),
    ],
)
def test_a_node(objects: list[Json], shape: TraceNode) -> None:
    (found,) = dump_of(*objects).nodes
    assert found == shape


@pytest.mark.parametrize(
    ("objects", "names", "note"),
    [
        pytest.param(
            [gpu_node("m", [gpu(0)], sharing={"strategy": "time-slicing", "replicas": 4})],
            ["n"],
            "1 node is left out: time-slicing or MPS",
            id="time-slicing",
        ),
        pytest.param(
            [
                node(name, {WHOLE: "7"}, labels={**GFD_H100, "nvidia.com/mig.strategy": "single"})
                for name in ("k", "m")
            ],
            ["n"],
            "2 nodes are left out: MIG instances as whole GPUs",
            id="MIG strategy single",
        ),
        pytest.param(
            [node("n", {WHOLE: "2"}, taints=[{"key": "gpu", "effect": "NoSchedule"}])],
            ["n"],
            "taints are ignored (nodes: 1)",
            id="a taint",
        ),
        pytest.param(
            [
                node("n", {WHOLE: "2"}, labels={"gpu.scheduler-ext.io/sharing": "memory"}),
                gpu_node("o", [gpu(0)]),
            ],
            ["n", "o"],
            "1 of 2 GPU nodes are for memory shares; here every node takes all pods",
            id="some nodes for shares",
        ),
    ],
)
def test_what_is_no_part_of_the_simulation_is_noted(objects: list[Json], names: list[str], note: str) -> None:
    dump = dump_of(GPU_2, *objects)
    assert ([shape.name for shape in dump.nodes], dump.notes) == (names, [note])


def share_on(uuid: str, mib: int, name: str = "s") -> Json:
    annotations = {"devices.gpu.scheduler-ext.io/main": uuid}
    return pod(name, {SHARE: str(mib)}, on="n", annotations=annotations)


@pytest.mark.parametrize(
    ("report", "pods", "rooms"),
    [
        pytest.param(GPU_2, [pod("p", {WHOLE: "1"}, on="n")], [0, 1000], id="an unknown GPU is the first"),
        pytest.param(
            gpu_node("n", [gpu(0), gpu(1, holders=[holder("p")])]),
            [pod("p", {WHOLE: "1"}, on="n")],
            [1000, 0],
            id="a known GPU by the report",
        ),
        pytest.param(
            gpu_node("n", [gpu(0, holders=[holder("q")]), gpu(1)]),
            [pod("p", {WHOLE: "1"}, on="n"), pod("q", {WHOLE: "1"}, on="n")],
            [0, 0],
            id="pods on unknown GPUs get those that are left",
        ),
        pytest.param(GPU_2, [share_on("GPU-1", 40961)], [1000, 499], id="a share is rounded up"),
        pytest.param(
            GPU_2,
            [pod("p", {WHOLE: "1"}, on="n", phase="Succeeded")],
            [1000, 1000],
            id="a pod that has ended",
        ),
    ],
)
def test_running_pods_hold_their_gpus(report: Json, pods: list[Json], rooms: list[int]) -> None:
    assert world_of(report, *pods).room_milli[:, 0].tolist() == rooms


@pytest.mark.parametrize(
    ("asks", "cpu", "memory"),
    [
        pytest.param({"cpu": "4", "memory": "16Gi"}, 60_000, 496 * 1024, id="a pod without GPUs"),
        pytest.param({"cpu": "65", "memory": "513Gi"}, 0, 0, id="no more than there is"),
    ],
)
def test_running_pods_hold_cpu_and_memory(asks: Json, cpu: int, memory: int) -> None:
    world = world_of(GPU_2, node("n", {WHOLE: "2"}), pod("p", asks, on="n"))
    assert (world.cpu_free[0], world.memory_free[0]) == (cpu, memory)


CLUSTER = (
    gpu_node("a", [gpu(0)]),
    gpu_node("t", [gpu(0, total=16384, model="T4")]),
    gpu_node("m", [gpu(0, vendor="amd", total=196608, model="MI300X")]),
)


@pytest.mark.parametrize(
    ("asking", "kind"),
    [
        pytest.param(pod("p", {"cpu": "2", "memory": "1Gi"}), PodKind(2000, 1024), id="no GPU"),
        pytest.param(
            pod("p", {WHOLE: "2"}),
            PodKind(0, 0, 2, 1000, ("A100-80GB", "T4")),
            id="whole GPUs of the vendor",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}, annotations={ANNOTATION + "min-memory": "40Gi"}),
            PodKind(0, 0, 1, 1000, ("A100-80GB",)),
            id="the models with the memory that the pod needs",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}, annotations={ANNOTATION + "model": "H100"}),
            PodKind(0, 0, 1, 1000, ("none",)),
            id="a model that no node has",
        ),
        pytest.param(
            pod("p", {SHARE: "8192"}), PodKind(0, 0, 1, 500), id="a share by the smallest GPU of all"
        ),
        pytest.param(
            pod("p", {SHARE: "40960"}),
            PodKind(0, 0, 1, 500, ("A100-80GB", "MI300X")),
            id="a share by the smallest that is large enough",
        ),
    ],
)
def test_a_new_pod(asking: Json, kind: PodKind) -> None:
    dump = dump_of(*CLUSTER)
    assert kinds_of(dump, asking) == [kind]
    assert dump.notes == []


@pytest.mark.parametrize(
    ("asking", "note"),
    [
        pytest.param(
            pod("p", containers=[{"name": n, "resources": {"limits": {SHARE: "9"}}} for n in "ab"]),
            "1 pod is left out: several shares or kinds of GPUs",
            id="two shares",
        ),
        pytest.param(
            pod("p", {WHOLE: "0.5"}),
            "1 pod is left out: an invalid request: container 'main'",
            id="half a GPU",
        ),
    ],
)
def test_pods_that_are_left_out_are_noted(asking: Json, note: str) -> None:
    dump = dump_of(GPU_2)
    assert kinds_of(dump, asking) == []
    assert [each[: len(note)] for each in dump.notes] == [note]


def test_what_is_ignored_is_noted() -> None:
    dump = dump_of(GPU_2)
    spread = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    pods = [
        pod("p", {WHOLE: "1"}, nodeSelector={"zone": "a"}),
        pod("q", {WHOLE: "1"}, nodeSelector={"zone": "a"}, topologySpreadConstraints=[spread]),
        pod("r", {WHOLE: "1"}, annotations={ANNOTATION + "min-cuda": "12.4", ANNOTATION + "model": "A100"}),
    ]
    assert len(kinds_of(dump, *pods)) == len(pods)
    assert dump.notes == [
        "ignored: annotation min-cuda (pods: 1)",
        "ignored: node selectors and node affinity (pods: 2)",
        "ignored: topology spread constraints (pods: 1)",
    ]


def test_policies_start_with_the_running_pods() -> None:
    dump = dump_of(gpu_node("n", [gpu(index) for index in range(4)]), pod("held", {WHOLE: "1"}, on="n"))
    new = dump.trace_pods(read_pods(inventory(*(pod(name, {WHOLE: "2"}) for name in ("first", "second")))))
    for result in compare_policies(dump, new, dict.fromkeys(("default", "fgd")), CONFIG.policy()):
        assert (result.pods, result.pods_placed, result.not_placed) == (2, 1, ("default/second",))
        assert (result.gpus_placed, result.allocated_percent) == (2.0, 75.0)
        # One GPU is free, and half of the demand is pods of one GPU.
        assert 0.0 < result.fragmentation_percent < 25.0


def test_prices_spot_nodes_and_priorities_come_with_the_dump() -> None:
    dump = dump_of(
        gpu_node("n", [gpu(0)]),
        node("n", {WHOLE: "1"}, labels={"gpu.scheduler-ext.io/value": "1.25"}),
        gpu_node("s", [gpu(0)]),
        node("s", {WHOLE: "1"}, labels={"karpenter.sh/capacity-type": "spot"}),
        pod("batch", {WHOLE: "1"}, priority=-10),
    )
    assert [shape.value for shape in dump.nodes] == [1.25, 0.0]
    assert [shape.spot for shape in dump.nodes] == [False, True]
    assert [each.priority for each in dump.trace_pods(dump.alive())] == [-10]


def test_a_cluster_as_a_trace() -> None:
    dump = dump_of(
        gpu_node("n", [gpu(0), gpu(1)]),
        node("n", {WHOLE: "2"}),
        pod("daemon", {"cpu": "4", "memory": "12Gi"}, on="n"),
        pod("held", {"cpu": "8", WHOLE: "1"}, on="n"),
        pod("waits", {"cpu": "1", WHOLE: "2"}),
        pod("ended", {WHOLE: "2"}, on="n", phase="Failed"),
    )
    assert dump.nodes_for_trace() == (TraceNode("n", 60_000, 500 * 1024, 2, "A100-80GB"),)
    assert [(each.name, each.kind.gpus, each.kind.cpu_milli) for each in dump.trace_pods(dump.alive())] == [
        ("default/held", 1, 8000),
        ("default/waits", 2, 1000),
    ]


def test_pods_name_their_gangs() -> None:
    gang = {ANNOTATION + "gang": "train", ANNOTATION + "gang-size": "2"}
    pods = [
        pod("a", {WHOLE: "1"}, annotations=gang),
        pod("b", {WHOLE: "1"}),
        pod("c", {WHOLE: "1"}, annotations={ANNOTATION + "gang-size": "2"}),
    ]
    found = dump_of(GPU_2).trace_pods(read_pods(inventory(*pods)))
    assert [each.gang for each in found] == ["default/train", "", ""]
