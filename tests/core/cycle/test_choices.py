"""The chosen node, in sentences: the effect of priority, strategy, models and MIG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.cycle.cycle import filter_nodes, points
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.gpu.gpu import Device, Holder, Memory
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.request import GpuRequest
from tests.core.asked import HELD, labelled, share, t4, whole
from tests.core.reported import SHARE, WHOLE, bound, device, node, sliced, wants
from tests.strategies import snapshot_of

HIGH, LOW = 1000, -1000


def gpus(count: int, held: int = 0, sick: int = 0, **fields: Any) -> tuple[Device, ...]:
    """Equal GPUs, the first ones held, the last ones sick."""
    return tuple(
        device(i, **{"holders": HELD if i < held else (), "healthy": i < count - sick} | fields)
        for i in range(count)
    )


def loaded(*promised_mib: int) -> tuple[Device, ...]:
    """GPUs of 80 GB with so much promised to shares."""
    return tuple(
        device(i, holders=(Holder(uid="someone", memory_mib=mib),) if mib else ())
        for i, mib in enumerate(promised_mib)
    )


def mixed(*devices: Device) -> tuple[Device, ...]:
    return tuple(replace(d, uuid=f"GPU-{i}", index=i) for i, d in enumerate(devices))


def best(request: GpuRequest, nodes: Mapping[str, NodeInfo], policy: Policy | None = None) -> set[str]:
    """The nodes that get 10 points."""
    snapshot = snapshot_of([replace(info, name=name) for name, info in nodes.items()])
    decision = filter_nodes(request, snapshot, policy or Policy())
    scored = points(
        decision.totals[snapshot.state_of[snapshot.rows(list(nodes))]], decision.scored.resolution
    )
    return {name for name, got in zip(nodes, scored.tolist(), strict=True) if got == 10}


LOADS = {"full": node(*gpus(8, held=6)), "half": node(*gpus(8, held=4)), "empty": node(*gpus(8))}
SHARE_LOADS = {"full": node(*loaded(60000)), "half": node(*loaded(30000)), "empty": node(*loaded(0))}
SPOT = {"spot": node(*gpus(8), spot=True), "on-demand": node(*gpus(8))}
MIG_SINGLE = (device(0, mig=sliced(*[("1g.10gb", i) for i in range(7)])),)
SICK = {"sick": node(*gpus(8, sick=1)), "sound": node(*gpus(8, held=1))}


def neighbour(priority: int, count: int) -> NodeInfo:
    """Eight GPUs; a pod of that priority holds some."""
    pod = bound("held", wants(count, WHOLE), priority=priority)
    devices = [device(i, holders=(Holder(uid=pod.uid),) if i < count else ()) for i in range(8)]
    return node(*devices, pods=(pod,), allocatable={WHOLE: 8})


def share_neighbour(priority: int) -> NodeInfo:
    """A GPU with a share of a pod with that priority."""
    pod = bound("held", wants(30_000, SHARE), priority=priority, devices={"main": ("GPU-0",)})
    return node(device(0), pods=(pod,))


NEIGHBOURS = {"steady": neighbour(10**6, 2), "evictable": neighbour(-100, 2)}
SHARE_NEIGHBOURS = {"steady": share_neighbour(10**6), "evictable": share_neighbour(0)}
ORDER = {"first": node(*gpus(8)), "second": node(*mixed(*[t4(holders=HELD)] * 7, t4()))}


@pytest.mark.parametrize(
    ("request_", "nodes", "expected"),
    [
        pytest.param(share(8192), SHARE_LOADS, {"full"}, id="a share without priority fills a GPU up"),
        pytest.param(
            share(8192, priority=HIGH), SHARE_LOADS, {"full"}, id="a share of high priority does, too"
        ),
        pytest.param(whole(), SPOT, {"spot", "on-demand"}, id="without priority they are equal"),
        pytest.param(
            whole(priority=HIGH),
            NEIGHBOURS,
            {"steady"},
            id="high priority prefers neighbours that are not evicted easily",
        ),
        pytest.param(
            share(8192, priority=HIGH), SHARE_NEIGHBOURS, {"steady"}, id="a share of high priority does"
        ),
        pytest.param(
            whole(priority=HIGH),
            {"steady": NEIGHBOURS["steady"], "empty": node(*gpus(8))},
            {"steady"},
            id="but it does not open an empty node for lack of neighbours",
        ),
        pytest.param(
            whole(priority=HIGH),
            {"steady": neighbour(10**6, 1), "evictable": neighbour(-100, 3)},
            {"evictable"},
            id="and fills the fuller node before it looks at neighbours",
        ),
        pytest.param(
            whole(priority=-100),
            NEIGHBOURS,
            {"steady", "evictable"},
            id="low priority does not look at its neighbours",
        ),
        pytest.param(
            whole(priority=HIGH),
            {"one": neighbour(70, 1), "other": neighbour(30, 1)},
            {"one", "other"},
            id="neighbours of about the same priority are equal",
        ),
        pytest.param(whole(), SICK, {"sound"}, id="so does a pod without priority, all else being equal"),
        pytest.param(share(8192, strategy="binpack"), SHARE_LOADS, {"full"}, id="binpack of a share"),
        pytest.param(share(8192, strategy="spread"), SHARE_LOADS, {"empty"}, id="spread of a share"),
        pytest.param(
            whole(strategy="spread", priority=LOW), LOADS, {"empty"}, id="a strategy outweighs a low priority"
        ),
        pytest.param(
            whole(strategy="binpack", priority=HIGH),
            LOADS,
            {"full"},
            id="a strategy outweighs a high priority",
        ),
        pytest.param(
            whole(models=("A100", "T4")),
            ORDER,
            {"first"},
            id="the model named first wins, however empty its node",
        ),
        pytest.param(
            whole(models=("T4", "A100")), ORDER, {"second"}, id="and the other way round in the other order"
        ),
        pytest.param(
            share(4096, models=("A100", "T4")),
            {"first": node(*loaded(0)), "second": node(t4(memory=Memory(15360, used_mib=9000)))},
            {"first"},
            id="a share follows the order of models too",
        ),
        pytest.param(
            whole(2),
            {"slices": node(*MIG_SINGLE, report={"mig_strategy": "single"}), "whole": node(*gpus(8))},
            {"whole"},
            id="two MIG instances are no two GPUs",
        ),
        pytest.param(
            share(8192),
            {"two": node(*loaded(0, 0)), "filled": node(*loaded(65000, 0))},
            {"filled"},
            id="a share fills the GPU that is in use already",
        ),
    ],
)
def test_the_best_node_is(request_: GpuRequest, nodes: dict[str, NodeInfo], expected: set[str]) -> None:
    assert best(request_, nodes) == expected


@pytest.mark.parametrize("policy", ["binpack", "spread", "fragmentation"])
@pytest.mark.parametrize("priority", [LOW, 0, HIGH])
def test_nodes_known_by_labels_come_after_all_reported_ones(policy: str, priority: int) -> None:
    # The worst report against the best label.
    reported = node(*gpus(8, held=3, sick=4), spot=priority > 0)
    nodes = {"labelled": labelled("NVIDIA A100-SXM4-80GB", memory_mib=81920), "reported": reported}
    request = whole(models=("A100", "H100"), priority=priority)
    assert best(request, nodes, Policy(strategy=policy)) == {"reported"}
    assert best(whole(2, priority=priority), nodes, Policy(strategy=policy)) == {"labelled"}


def test_a_policy_strategy_holds_for_pods_that_name_none() -> None:
    assert best(whole(), LOADS, Policy(strategy="spread")) == {"empty"}
    assert best(whole(), LOADS, Policy(strategy="binpack")) == {"full"}
    assert best(whole(strategy="binpack"), LOADS, Policy(strategy="spread")) == {"full"}


@pytest.mark.parametrize(
    ("request_", "promised_mib", "slot_free_mib"),
    [
        pytest.param(share(8192), (60000, 20000, 0), 13728, id="by default, the GPU it fragments least"),
        pytest.param(
            share(8192, strategy="binpack"), (60000, 20000, 0), 13728, id="binpack: the fullest with room"
        ),
        pytest.param(share(8192, strategy="spread"), (60000, 20000, 0), 73728, id="spread: the emptiest"),
        pytest.param(
            share(20480, strategy="binpack"), (60000, 20000, 0), 53728, id="never one without enough room"
        ),
    ],
)
def test_on_its_node_a_share_goes_to(
    request_: GpuRequest, promised_mib: tuple[int, ...], slot_free_mib: int
) -> None:
    snapshot = snapshot_of([node(*loaded(*promised_mib))])
    fit = filter_nodes(request_, snapshot, Policy()).scoring.fit
    assert fit is not None
    state = snapshot.state_of[0]
    assert snapshot.states[state].slots[int(fit.slots[0][state])].share_free_mib == slot_free_mib


def test_on_its_node_a_share_goes_to_the_model_named_first() -> None:
    both = node(*mixed(t4(), device(0, holders=(Holder(uid="x", memory_mib=60000),))))
    snapshot = snapshot_of([both])
    for models in (("T4", "A100"), ("A100", "T4")):
        for strategy in ("binpack", "spread"):
            fit = filter_nodes(share(4096, models=models, strategy=strategy), snapshot, Policy()).scoring.fit
            assert fit is not None
            state = snapshot.state_of[0]
            slot = snapshot.states[state].slots[int(fit.slots[0][state])]
            assert slot.model.family == models[0]


def test_soft_preferences_leave_the_extenders_order_as_it_is() -> None:
    nodes = {"a": node(*loaded(60000)), "b": node(*loaded(40000)), "far": node(*loaded(0))}
    assert best(share(4096), nodes) == {"a"}
    assert best(share(4096, soft_preferences=True), nodes) == {"a"}
