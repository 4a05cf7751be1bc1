"""simulate cluster with gangs: their pods are placed together, or none of them is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.request.gang_request import GATE, GangRequest
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.features.gangs.simulation.placed_together import GangsOfCluster
from scheduler_ext.sim.extension import Missed
from scheduler_ext.whatif.whatif import PodInfo, WhatIf
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gangs import read_gang_request
from scheduler_ext.wire.pod.pod_identity import pod_name
from scheduler_ext.wire.pod.pod_needs import pod_needs
from scheduler_ext.wire.pod.pod_request import pod_request
from tests.examples import examples
from tests.extender.foreseeing import WHOLE, read, state_of
from tests.extender.preempting import share_node
from tests.kube_objects import ANNOTATION, SHARE, Json, gpu, gpu_node, node, pod
from tests.sim.cluster.foreseeing import foreseen

ZONE = "topology.kubernetes.io/zone"


def member(name: str, gpus: int = 1, *, gang: str = "train", size: int = 2, **more: Any) -> Json:
    wishes = {"gang": gang, "gang-size": str(size)} | more.pop("annotations", {})
    annotations = {ANNOTATION + key: value for key, value in wishes.items()}
    return pod(name, more.pop("limits", {WHOLE: str(gpus)}), annotations=annotations, **more)


def team(size: int, gpus: int = 1, **more: Any) -> list[Json]:
    return [member(f"m{number}", gpus, size=size, **more) for number in range(size)]


def host(name: str, gpus: int, model: str = "H100-80GB", zone: str = "a") -> list[Json]:
    devices = [gpu(number, f"{name}-{number}", model=model) for number in range(gpus)]
    labels = {ZONE: zone, "karpenter.sh/nodepool": f"pool-{zone}"}
    return [gpu_node(name, devices), node(name, {WHOLE: str(gpus)}, labels=labels)]


def nodes_of(items: list[Json]) -> list[str | None]:
    return [item["node"] for item in items]


def test_a_gang_that_fits_has_a_node_for_each_pod() -> None:
    items = foreseen(team(3, 2), *host("n1", 4), *host("n2", 4))
    assert [item["gang"] for item in items] == ["train"] * 3
    assert sorted(Counter(nodes_of(items)).values()) == [1, 2]
    assert all(item["devices"] for item in items)
    assert all(item["valuePerHour"] > 0 and item["message"] is None for item in items)


@pytest.mark.parametrize(
    ("pods", "hosts", "message", "reason"),
    [
        pytest.param(
            team(8, annotations={"model": "H100-80GB"}),
            [*host("n1", 3), *host("n2", 8, "T4")],
            "3 of 8 members fit; 5 × H100-80GB short",
            "Insufficient nvidia.com/gpu per device",
            id="too few GPUs of the model",
        ),
        pytest.param(
            team(2, 3, annotations={"gang-required-topology": ZONE}),
            [*host("n1", 4, zone="a"), *host("n2", 4, zone="b")],
            f"1 of 2 members fit in {ZONE}=a; 3 × nvidia.com/gpu short",
            "Insufficient nvidia.com/gpu per device",
            id="no zone for all of them",
        ),
        pytest.param(
            team(2, annotations={"gang-required-topology": "rack"}),
            host("n1", 4),
            "no node that could take a member has the label rack, as the gang requires; correct its "
            "required topology, or label the nodes",
            None,
            id="no node with the label of the domain",
        ),
        pytest.param(
            team(3, limits={WHOLE: "1", "cpu": "40"}),
            [*host("n1", 4), *host("n2", 4), *host("n3", 0)],
            "2 of 3 members fit; no node for 1 × nvidia.com/gpu: 2 Insufficient cpu, "
            "1 Insufficient nvidia.com/gpu per device",
            "Insufficient cpu",
            id="too little CPU beside the other members",
        ),
        pytest.param(
            team(2, limits={WHOLE: "3", "memory": "2Ti"}),
            host("n1", 8),
            "0 of 2 members fit; no node for 6 × nvidia.com/gpu: 1 Insufficient memory",
            "Insufficient memory",
            id="a node with too little memory",
        ),
        pytest.param(
            team(2, nodeSelector={ZONE: "c"}),
            [*host("n1", 4), *host("n2", 4)],
            "0 of 2 members fit; no node for 2 × nvidia.com/gpu: "
            "2 node(s) didn't match Pod's node affinity/selector",
            "node(s) didn't match Pod's node affinity/selector",
            id="no node with the labels of the members",
        ),
        pytest.param(
            team(2, annotations={"model": "H100"}),
            host("n1", 4, "T4"),
            "0 of 2 members fit; no node for 2 × H100: 1 node(s) didn't match the requested GPU model",
            "node(s) didn't match the requested GPU model",
            id="no GPU of the model",
        ),
        pytest.param(
            team(3)[:2], host("n1", 8), "2 of 3 pods exist", None, id="a pod that does not exist yet"
        ),
    ],
)
def test_a_gang_that_does_not_fit_has_no_node_at_all(
    pods: list[Json], hosts: list[Json], message: str, reason: str | None
) -> None:
    items = foreseen([*pods, pod("later", {WHOLE: "1"})], *hosts)
    *members, later = items
    assert nodes_of(members) == [None] * len(pods)
    assert {item["message"] for item in members} == {message}
    assert {item["reason"] for item in members} == {reason}
    assert {item["valuePerHour"] for item in members} == {None}
    # It holds nothing.
    assert later["node"] is not None


def test_each_member_has_a_reason_of_its_own() -> None:
    leader = member("leader", size=4, limits={WHOLE: "1", "cpu": "200"})
    workers = [member(f"w{number}", 3, size=4) for number in range(2)]
    items = foreseen([leader, *workers, member("small", size=4)], *host("n1", 4), *host("n2", 2))
    assert [item["reason"] for item in items] == [
        "Insufficient cpu",
        "Insufficient nvidia.com/gpu per device",
        "Insufficient nvidia.com/gpu per device",
        None,
    ]
    assert {item["message"] for item in items} == {
        "2 of 4 members fit; 3 × nvidia.com/gpu short; no node for 1 × nvidia.com/gpu: 2 Insufficient cpu"
    }


def test_a_gang_that_does_not_fit_leaves_its_cpu_to_others() -> None:
    cpu = {WHOLE: "1", "cpu": "40"}
    items = foreseen([*team(2, limits=cpu), pod("later", cpu)], *host("n1", 8))
    assert nodes_of(items) == [None, None, "n1"]


def test_a_gang_that_does_not_fit_leaves_no_trace() -> None:
    cluster = WhatIf(state_of(*host("n1", 8), pod("x", {WHOLE: "1"}, on="n1")), Configuration())
    infos, residents = dict(cluster.infos), {name: dict(here) for name, here in cluster.residents.items()}
    members = []
    for each in read(*team(2, 4)):
        gang_request, request = read_gang_request(each), pod_request(each, Configuration().resource_names())
        assert isinstance(gang_request, GangRequest)
        assert isinstance(request, GpuRequest)
        members.append((gang_request, PodInfo(each, pod_name(each), request, pod_needs(each))))
    found = GangsOfCluster(cluster, state_of().objects).place(members)
    assert isinstance(found, Missed)
    assert cluster.infos == infos
    assert {name: dict(here) for name, here in cluster.residents.items() if here} == residents


def test_a_gang_is_placed_when_its_last_pod_comes() -> None:
    pods = [member("a", 4), pod("between", {WHOLE: "4"}), member("b", 4)]
    items = foreseen(pods, *host("n1", 4), *host("n2", 4))
    assert items[1]["node"] is not None
    assert nodes_of(items[::2]) == [None, None]
    assert items[0]["message"] == "1 of 2 members fit; 4 × nvidia.com/gpu short"
    # One more node, and it fits.
    assert None not in nodes_of(foreseen(pods, *host("n1", 4), *host("n2", 4), *host("n3", 4)))


def test_pods_beyond_the_size_join_one_by_one() -> None:
    pods = [member(f"m{number}", 4, size=2) for number in range(4)]
    items = foreseen(pods, *host("n1", 4), *host("n2", 4), *host("n3", 4))
    assert [item["node"] is not None for item in items] == [True, True, True, False]
    assert items[3]["reason"] == "Insufficient nvidia.com/gpu per device"


def test_members_that_run_count_and_choose_the_domain() -> None:
    gang_request = {"gang-required-topology": ZONE}
    running = member("m0", 1, size=2, on="n2", annotations=gang_request)
    cluster = [*host("n1", 8, zone="a"), *host("n2", 4, zone="b"), *host("n3", 8, zone="b"), running]
    (item,) = foreseen([member("m1", 4, size=2, annotations=gang_request)], *cluster)
    assert item["node"] == "n3"


def test_a_node_pool_is_a_domain() -> None:
    gang_request = {"gang-required-topology": "node-pool"}
    cluster = [*host("n1", 3, zone="a"), *host("n2", 4, zone="b"), *host("n3", 4, zone="b")]
    items = foreseen(team(2, 3, annotations=gang_request), *cluster)
    assert set(nodes_of(items)) == {"n2", "n3"}


def test_the_gate_of_gangs_is_modelled_and_other_gates_are_not() -> None:
    gate, other = {"name": GATE}, {"name": "example.com/quota"}
    items = foreseen(
        [member("a", schedulingGates=[gate]), member("b", schedulingGates=[gate, other])], *host("n1", 2)
    )
    assert [item["notModelled"] for item in items] == [
        [],
        ["scheduling gate example.com/quota: the controller of example.com removes it"],
    ]


def test_an_invalid_member_keeps_the_whole_gang_back() -> None:
    items = foreseen([member("a"), member("b", annotations={"min-memory": "lots"})], *host("n1", 2))
    assert nodes_of(items) == [None, None]
    assert items[0]["message"] == "the pod default/b of its gang has an invalid request"
    assert items[1]["reason"] == "pod's GPU request is invalid"


def test_a_gang_that_cannot_be_read_is_an_invalid_request() -> None:
    (item,) = foreseen([pod("a", {WHOLE: "1"}, annotations={ANNOTATION + "gang-size": "2"})], *host("n1", 2))
    assert item["reason"] == "pod's GPU request is invalid"
    assert "gang-size without a gang" in item["message"]


@examples(20, long=400)
@given(
    st.lists(st.sampled_from((1, 2, 3)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(2, 4), st.sampled_from((1, 2))), min_size=1, max_size=3),
    st.lists(st.sampled_from((1, 2)), max_size=2),
)
def test_gangs_run_whole_or_not_at_all_within_the_capacity(
    hosts: list[int], gangs: list[tuple[int, int]], singles: list[int]
) -> None:
    cluster = [each for number, gpus in enumerate(hosts) for each in host(f"n{number}", gpus)]
    pods = [
        member(f"g{number}-{i}", gpus, gang=f"g{number}", size=size)
        for number, (size, gpus) in enumerate(gangs)
        for i in range(size)
    ]
    pods += [pod(f"s{number}", {WHOLE: str(gpus)}) for number, gpus in enumerate(singles)]
    items = foreseen(pods, *cluster)
    left = {f"n{number}": gpus for number, gpus in enumerate(hosts)}
    for asking, item in zip(pods, items, strict=True):
        if item["node"] is not None:
            left[item["node"]] -= int(asking["spec"]["containers"][0]["resources"]["limits"][WHOLE])
    assert min(left.values()) >= 0
    for number in range(len(gangs)):
        placed = {item["node"] is not None for item in items if item["gang"] == f"g{number}"}
        assert len(placed) == 1


def test_shares_of_a_gang_have_a_gpu_each() -> None:
    shares = [member(f"m{number}", limits={SHARE: "50000"}) for number in range(2)]
    items = foreseen(shares, *share_node("n", 2))
    assert sorted(entry["uuid"] for item in items for entry in item["devices"]) == ["GPU-n-0", "GPU-n-1"]
