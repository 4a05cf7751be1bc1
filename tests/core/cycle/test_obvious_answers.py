"""Small inventories with an obvious answer: what an operator who pays for the GPUs expects, in sentences."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.cycle.cycle import filter_nodes, points
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.gpu.gpu import Device, Holder, Memory
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.pod_kinds import UNKNOWN, TaskClass, Workload
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from tests.core.asked import HELD, mig, share, t4, whole
from tests.core.reported import SHARED, WHOLE, bound, device, node, sliced, wants
from tests.strategies import snapshot_of

Nodes = dict[str, NodeInfo]
SLICES: dict[str, Any] = {"report": {"sharing_strategy": "time-slicing", "replicas": 4}}


def has(model: str, count: int, held: int = 0, sick: int = 0, **fields: Any) -> NodeInfo:
    """A node with so many GPUs of a model, which a device plugin hands out; the first ones are held, the last
    ones sick."""
    known = canonical_model(model)
    memory = Memory(known.memory_mib or 16384)
    devices = [
        device(
            i,
            product=model,
            model=known,
            compute_capability=known.compute_capability,
            memory=memory,
            holders=HELD if i < held else (),
            healthy=i < count - sick,
        )
        for i in range(count)
    ]
    if "report" not in fields:
        fields = {"allocatable": {WHOLE: count}} | fields
    return node(*devices, **fields)


def shared(model: str, *promised_mib: int, **fields: Any) -> NodeInfo:
    """A node whose GPUs have so much promised to memory shares."""
    known = canonical_model(model)
    devices = [
        device(
            i,
            product=model,
            model=known,
            memory=Memory(known.memory_mib or 16384),
            holders=(Holder(uid=f"share-{i}", memory_mib=mib),) if mib else (),
        )
        for i, mib in enumerate(promised_mib)
    ]
    return node(*devices, **fields)


def beside(priority: int, model: str = "H100-80GB") -> NodeInfo:
    """Eight GPUs; a pod of that priority holds one."""
    pod = bound("held", wants(1, WHOLE), priority=priority)
    info = has(model, 8)
    assert info.report is not None
    first, *rest = info.report.devices
    return node(replace(first, holders=(Holder(uid=pod.uid),)), *rest, pods=(pod,), allocatable={WHOLE: 8})


def in_slices(count: int, held: int) -> NodeInfo:
    """T4s in four slices each; pods hold so many of them, on devices that the agent does not know."""
    pods = tuple(bound(f"held-{i}", wants(1, WHOLE)) for i in range(held))
    return has("T4", count, pods=pods, allocatable={WHOLE: 4 * count}, **SLICES)


def snapshot_by_name(nodes: Nodes, workload: Workload = UNKNOWN) -> Snapshot:
    return snapshot_of([replace(info, name=name) for name, info in nodes.items()], workload=workload)


def scored(
    request: GpuRequest, nodes: Nodes, policy: SchedulingPolicy | None = None, workload: Workload = UNKNOWN
) -> dict[str, int]:
    """The points of each node."""
    snapshot = snapshot_by_name(nodes, workload)
    decision = filter_nodes(request, snapshot, policy or SchedulingPolicy())
    found = decision.totals[snapshot.state_of[snapshot.rows(list(nodes))]]
    return dict(zip(nodes, points(found, decision.scored.resolution).tolist(), strict=True))


def best(
    request: GpuRequest, nodes: Nodes, policy: SchedulingPolicy | None = None, workload: Workload = UNKNOWN
) -> set[str]:
    """The nodes that get the most points; none if the pod fits nowhere."""
    return {name for name, got in scored(request, nodes, policy, workload).items() if got == 10}


T4_OR_H100: Nodes = {"t4": has("T4", 4), "h100": has("H100-80GB", 8, held=6)}
FILLED: Nodes = {
    "full": has("H100-80GB", 8, held=7),
    "half": has("H100-80GB", 8, held=4),
    "empty": has("H100-80GB", 8),
}
SPOT: Nodes = {"spot": has("H100-80GB", 8, spot=True), "on-demand": has("H100-80GB", 8, held=6)}
FULL_SPOT: Nodes = {"spot": has("H100-80GB", 8, held=6, spot=True), "on-demand": has("H100-80GB", 8)}
SLICED: Nodes = {"slices": has("T4", 2, **SLICES), "whole": has("H100-80GB", 8, held=7)}
ONLY_SLICES: Nodes = {"slices": has("T4", 2, **SLICES), "whole": has("H100-80GB", 8, held=8)}
SICK: Nodes = {"sick": has("H100-80GB", 8, held=6, sick=1), "sound": has("H100-80GB", 8)}
FLEET: Nodes = {
    "t4": has("T4", 4),
    "l4": has("L4", 4),
    "a100": has("A100-80GB", 8),
    "h100": has("H100-80GB", 8),
}
ONE_CUT = device(0, mig=sliced(*[("1g.10gb", i) for i in range(7)]))
HALF_CUT = device(
    0, mig=sliced(*[("1g.10gb", i) for i in range(7)], holders={i: Holder(uid="x") for i in range(3)})
)
MIXED: dict[str, Any] = {"report": {"mig_strategy": "mixed"}}

ROWS = [
    # Packing.
    pytest.param(whole(), FILLED, {"full"}, id="one GPU takes the last free one of a node"),
    pytest.param(
        whole(4, priority=1_000),
        {f"{free} free": has("H100-80GB", 8, held=8 - free) for free in range(4, 7)},
        {"4 free"},
        id="four GPUs take the node with exactly four free",
    ),
    pytest.param(whole(1, strategy="spread"), FILLED, {"empty"}, id="spread takes the empty node"),
    pytest.param(whole(1, strategy="binpack"), FILLED, {"full"}, id="binpack takes the full node"),
    pytest.param(
        whole(strategy="spread", priority=1_000), FILLED, {"empty"}, id="a strategy outweighs a high priority"
    ),
    # Priority is about reliability, not emptiness.
    pytest.param(whole(priority=2_000_000_000), FILLED, {"full"}, id="a pod of the highest priority packs"),
    pytest.param(whole(priority=10), SICK, {"sound"}, id="priority avoids a node with a sick GPU"),
    pytest.param(
        whole(priority=1_000),
        {"steady": beside(100_000), "evictable": beside(-10)},
        {"steady"},
        id="of equals, an important pod has neighbours that stay",
    ),
    pytest.param(
        whole(priority=1_000),
        {"evictable": has("H100-80GB", 8, held=7), "empty": has("H100-80GB", 8)},
        {"evictable"},
        id="an important pod does not open a node for want of neighbours",
    ),
    # Spot.
    pytest.param(whole(priority=-1), SPOT, {"spot"}, id="batch goes to spot"),
    pytest.param(whole(priority=1), FULL_SPOT, {"on-demand"}, id="an important pod avoids spot"),
    pytest.param(
        whole(priority=100),
        {"spot": has("H100-80GB", 8, spot=True), "on-demand": has("H100-80GB", 8, held=8)},
        {"spot"},
        id="an important pod takes spot rather than to wait",
    ),
    # Slices are no GPUs.
    pytest.param(whole(), SLICED, {"whole"}, id="one GPU is whole if a whole one is free"),
    pytest.param(
        whole(),
        {"instances": node(ONE_CUT, report={"mig_strategy": "single"}), "whole": has("H100-80GB", 8)},
        {"whole"},
        id="and no MIG instance that is called a GPU",
    ),
    pytest.param(
        whole(),
        {"eighth": has("L4", 1, fraction=8), "whole": has("H100-80GB", 8)},
        {"whole"},
        id="and no fraction of a cloud",
    ),
    pytest.param(
        whole(sharing="exclusive"),
        {"eighth": has("L4", 1, fraction=8), "whole": has("H100-80GB", 8)},
        {"whole"},
        id="least of all if it is to be exclusive",
    ),
    pytest.param(
        whole(),
        {"half": has("L4", 1, fraction=2), "eighth": has("L4", 1, fraction=8)},
        {"eighth"},
        id="of fractions the cheapest",
    ),
    pytest.param(whole(), ONLY_SLICES, {"slices"}, id="a slice is better than to wait"),
    pytest.param(whole(2), ONLY_SLICES, set(), id="two slices are no two GPUs"),
    pytest.param(whole(2, sharing="any"), ONLY_SLICES, {"slices"}, id="unless any sharing is accepted"),
    pytest.param(
        whole(),
        {"none": in_slices(1, 0), "two": in_slices(1, 2), "three": in_slices(1, 3), "four": in_slices(1, 4)},
        {"three"},
        id="a slice is the last one of a GPU",
    ),
    pytest.param(
        whole(),
        {"none": in_slices(8, 0), "one": in_slices(8, 1)},
        {"one"},
        id="a slice is on the node in use",
    ),
    pytest.param(whole(1, SHARED), SLICED, {"slices"}, id="a slice that is named as such"),
    pytest.param(
        whole(min_memory_mib=40_000), SLICED, {"whole"}, id="a wish for memory goes to the GPU that has it"
    ),
    # The least valuable GPU that fits.
    pytest.param(whole(), T4_OR_H100, {"t4"}, id="a pod without wishes leaves the H100 free"),
    pytest.param(whole(models=("H100", "T4")), T4_OR_H100, {"h100"}, id="the order of models decides"),
    pytest.param(whole(), FLEET, {"t4"}, id="of four models, the cheapest"),
    pytest.param(whole(min_memory_mib=40_000), FLEET, {"a100"}, id="the cheapest with 40 GB"),
    pytest.param(whole(8), FLEET, {"a100"}, id="the cheapest with eight GPUs"),
    pytest.param(
        share(4096),
        {"opened": shared("L4", 8000), "unused": shared("L4", 0)},
        {"opened"},
        id="a share fills a GPU that is in use",
    ),
    pytest.param(
        whole(),
        {"dear": has("T4", 4, value=9.0), "cheap": has("T4", 4, value=0.1)},
        {"cheap"},
        id="a price on the node decides",
    ),
    pytest.param(
        mig("1g.10gb"),
        {"cut": node(HALF_CUT, **MIXED), "unused": node(ONE_CUT, **MIXED)},
        {"cut"},
        id="a MIG instance goes to the GPU in use",
    ),
]


def share_device(info: NodeInfo, request: GpuRequest) -> Device:
    """The GPU of a share on its node."""
    snapshot = snapshot_of([info])
    fit = filter_nodes(request, snapshot, SchedulingPolicy()).scoring.fit
    assert fit is not None
    uuid = snapshot.nodes[info.name].uuids[int(fit.slots[0][snapshot.state_of[0]])]
    (found,) = (each for each in info.devices if each.uuid == uuid)
    return found


@pytest.mark.parametrize(
    ("strategy", "index"),
    [
        pytest.param(None, 1, id="by default, the GPU it fragments least"),
        pytest.param("binpack", 1, id="binpack: the fullest with room"),
        pytest.param("spread", 3, id="spread: the emptiest"),
    ],
)
def test_on_its_node_a_share_goes_to(strategy: str | None, index: int) -> None:
    info = shared("A100-80GB", 70_000, 60_000, 20_000, 0)
    assert share_device(info, share(8192, strategy=strategy)).index == index


@pytest.mark.parametrize("models", [("T4", "A100"), ("A100", "T4")])
@pytest.mark.parametrize("strategy", ["binpack", "spread"])
def test_on_its_node_a_share_goes_to_the_model_named_first(models: tuple[str, ...], strategy: str) -> None:
    info = node(t4(), device(1, holders=(Holder(uid="x", memory_mib=60000),)))
    assert share_device(info, share(4096, models=models, strategy=strategy)).model.family == models[0]


def test_a_policy_strategy_holds_for_pods_that_name_none() -> None:
    assert best(whole(), FILLED, SchedulingPolicy(strategy="spread")) == {"empty"}
    assert best(whole(strategy="binpack"), FILLED, SchedulingPolicy(strategy="spread")) == {"full"}


@pytest.mark.parametrize(("request_", "nodes", "expected"), ROWS)
def test_an_operator_expects(request_: GpuRequest, nodes: Nodes, expected: set[str]) -> None:
    assert best(request_, nodes) == expected


@pytest.mark.parametrize("priority", [0, 1_000])
def test_preferred_nodes_are_packed_beside_better_and_worse_ones(priority: int) -> None:
    preferred: Nodes = {f"held-{held}": has("H100-80GB", 8, held=held) for held in range(8)}
    others: Nodes = {"cheap": has("T4", 4), "spot": has("H100-80GB", 8, spot=True)}
    found = scored(whole(priority=priority), preferred | others)
    most = max(found[name] for name in preferred)
    assert [name for name in preferred if found[name] == most] == ["held-7"]
    assert found["held-7"] > found["held-6"] > found["held-0"]


@pytest.mark.parametrize(("t4", "full"), [(4, 1), (16, 3)])
def test_a_pod_without_wishes_leaves_the_last_h100_alone_while_a_quarter_is_idle(t4: int, full: int) -> None:
    nodes = {"t4": has("T4", t4), "used": has("H100-80GB", 8, held=7)}
    nodes |= {f"full-{i}": has("H100-80GB", 8, held=8) for i in range(full)}
    ones = Workload.of({TaskClass(gpus=1): 8 * full + 7}, unknown=20)
    assert best(whole(), nodes, workload=ones) == {"t4"}


def and_full(nodes: Nodes, model: str, count: int) -> Nodes:
    """The nodes, and so many of the model without an idle GPU."""
    return nodes | {f"full-{i}": has(model, 8, held=8) for i in range(count)}


@pytest.mark.parametrize("full", [0, 8])
@pytest.mark.parametrize("idle", [1, 4])
@pytest.mark.parametrize(
    ("cheap", "dear"),
    [("T4", "H100-80GB"), ("A100-80GB", "H100-80GB"), ("H100-80GB", "B200")],
)
def test_in_a_small_cluster_half_the_price_wins_however_full_it_is(
    cheap: str, dear: str, idle: int, full: int
) -> None:
    nodes = {"cheap": has(cheap, 8), "dear": has(dear, 8, held=8 - idle)}
    assert best(whole(), and_full(nodes, dear, full)) == {"cheap"}


@pytest.mark.parametrize("full", [0, 8])
@pytest.mark.parametrize("promised", [0, 60_000])
@pytest.mark.parametrize("cheap", ["T4", "A10"])
def test_in_a_small_cluster_a_small_share_opens_a_small_gpu(cheap: str, promised: int, full: int) -> None:
    nodes = {"cheap": shared(cheap, 0, 0), "dear": shared("H100-80GB", *[promised] * 8)}
    assert best(share(4096), and_full(nodes, "H100-80GB", full)) == {"cheap"}


@pytest.mark.parametrize("held", [1, 4, 7])
@pytest.mark.parametrize(("full", "idle"), [(30, 4), (40, 20)])
@pytest.mark.parametrize("cheap", ["T4", "A10"])
def test_in_a_large_cluster_the_last_h100_stay_free_while_cheap_gpus_are_idle(
    cheap: str, full: int, idle: int, held: int
) -> None:
    nodes = {f"idle-{i}": has(cheap, 4) for i in range(idle)} | {"last": has("H100-80GB", 8, held=held)}
    assert "last" not in best(whole(), and_full(nodes, "H100-80GB", full))


@pytest.mark.parametrize("nodes_each", [3, 12])
@pytest.mark.parametrize("asked", [1, 2])
def test_the_last_gpus_of_a_cheaper_model_come_before_those_of_a_dearer_one(
    asked: int, nodes_each: int
) -> None:
    nodes = {f"t4-{i}": has("T4", 4, held=4 if i else 0) for i in range(nodes_each)}
    for model in ("A100-80GB", "H100-80GB"):
        nodes |= {f"{model}-{i}": has(model, 8, held=8 if i else 8 - asked) for i in range(nodes_each)}
    assert best(whole(asked, min_memory_mib=40_000), nodes) == {"A100-80GB-0"}


def test_a_model_of_another_price_class_changes_nothing_between_others() -> None:
    nodes = {"cheap": has("A100-80GB", 8), "dear": has("H100-80GB", 8, held=7), "old": has("T4", 2, held=2)}
    assert best(whole(), and_full(nodes, "GB300", 1)) == {"cheap"}


def test_hardware_that_is_paid_for_is_used_first() -> None:
    nodes = {"paid": has("H100-80GB", 8, value=0.001), "cheap": has("L4", 4, held=3)}
    assert best(whole(), nodes | {"dear": has("H100-80GB", 8, held=7)}) == {"paid"}


@pytest.mark.parametrize("full", [10, 38])
@pytest.mark.parametrize(("cheap", "dear"), [("T4", "H100-80GB"), ("A10", "H200"), ("L4", "A100-80GB")])
@pytest.mark.parametrize(("idle", "left"), [(4, 2), (4, 1), (1, 4)])
def test_in_a_full_cluster_of_any_size_a_used_cheap_node_comes_first(
    cheap: str, dear: str, full: int, idle: int, left: int
) -> None:
    nodes = {"cheap": has(cheap, 8, held=8 - idle), "dear": has(dear, 8, held=8 - left)}
    others = {f"{i}": has(dear if i % 2 else cheap, 8, held=8) for i in range(full)}
    assert best(whole(), nodes | others) == {"cheap"}


def test_configured_values_replace_those_of_the_table() -> None:
    nodes: Nodes = {"t4": has("T4", 4), "l4": has("L4", 4)}
    assert best(whole(), nodes) == {"t4"}
    assert best(whole(), nodes, SchedulingPolicy(values={"L4": 0.05})) == {"l4"}


@pytest.mark.parametrize("mib", [1024, 8192])
@pytest.mark.parametrize("gpus", [1, 4])
def test_a_share_leaves_an_unused_node_alone_where_all_pods_ask_small_shares(gpus: int, mib: int) -> None:
    workload = Workload.of({TaskClass(shares_mib=(2048,)): 50, TaskClass(shares_mib=(mib,)): 1})
    nodes = {"used": shared("L4", 2048, *[0] * (gpus - 1)), "unused": shared("L4", *[0] * gpus)}
    assert best(share(mib), nodes, workload=workload) == {"used"}


def test_forty_small_pods_leave_room_for_fifteen_large_ones() -> None:
    """Twenty nodes of eight H100: forty pods of one GPU, then fifteen of eight. Of nodes with equal points
    the emptiest is taken, as kube-scheduler's own scores would have it."""
    held = Counter[int]()
    priorities = (-100, 0, 1, 10, 100, 1_000)

    def place(request: GpuRequest, count: int) -> bool:
        nodes = {f"{i:02}": has("H100-80GB", 8, held=held[i]) for i in range(20)}
        chosen = best(request, nodes)
        if chosen:
            held[min(map(int, chosen), key=lambda node: held[node])] += count
        return bool(chosen)

    small = [place(whole(priority=priorities[i % len(priorities)]), 1) for i in range(40)]
    large = [place(whole(8, priority=priorities[i % len(priorities)]), 8) for i in range(15)]
    assert all(small)
    assert large.count(True) == 15
