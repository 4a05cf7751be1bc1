"""The chosen node, in sentences: the effect of priority, strategy, models and MIG."""

from __future__ import annotations

import pytest

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.gpu.gpu import Holder, Memory
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.request import GpuRequest
from tests.core.asked import share, t4, whole
from tests.core.cycle.test_obvious_answers import best, has, shared
from tests.core.reported import SHARE, WHOLE, bound, device, node, wants
from tests.strategies import snapshot_of

HIGH = 1000


LOADS = {
    "full": has("A100-80GB", 8, held=6),
    "half": has("A100-80GB", 8, held=4),
    "empty": has("A100-80GB", 8),
}


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


@pytest.mark.parametrize(
    ("request_", "nodes", "expected"),
    [
        pytest.param(
            share(8192, priority=HIGH), SHARE_NEIGHBOURS, {"steady"}, id="a share of high priority does"
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
        pytest.param(
            whole(strategy="binpack", priority=HIGH),
            LOADS,
            {"full"},
            id="a strategy outweighs a high priority",
        ),
        pytest.param(
            share(4096, models=("A100", "T4")),
            {"first": shared("A100-80GB", 0), "second": node(t4(memory=Memory(15360, used_mib=9000)))},
            {"first"},
            id="a share follows the order of models too",
        ),
    ],
)
def test_the_best_node_is(request_: GpuRequest, nodes: dict[str, NodeInfo], expected: set[str]) -> None:
    assert best(request_, nodes) == expected


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
    ],
)
def test_on_its_node_a_share_goes_to(
    request_: GpuRequest, promised_mib: tuple[int, ...], slot_free_mib: int
) -> None:
    snapshot = snapshot_of([shared("A100-80GB", *promised_mib)])
    fit = filter_nodes(request_, snapshot, Policy()).scoring.fit
    assert fit is not None
    state = snapshot.state_of[0]
    assert snapshot.states[state].slots[int(fit.slots[0][state])].share_free_mib == slot_free_mib


def test_on_its_node_a_share_goes_to_the_model_named_first() -> None:
    both = node(t4(), device(1, holders=(Holder(uid="x", memory_mib=60000),)))
    snapshot = snapshot_of([both])
    for models in (("T4", "A100"), ("A100", "T4")):
        for strategy in ("binpack", "spread"):
            fit = filter_nodes(share(4096, models=models, strategy=strategy), snapshot, Policy()).scoring.fit
            assert fit is not None
            state = snapshot.state_of[0]
            slot = snapshot.states[state].slots[int(fit.slots[0][state])]
            assert slot.model.family == models[0]


def test_soft_preferences_leave_the_extenders_order_as_it_is() -> None:
    nodes = {"a": shared("A100-80GB", 60000), "b": shared("A100-80GB", 40000), "far": shared("A100-80GB", 0)}
    assert best(share(4096), nodes) == {"a"}
    assert best(share(4096, soft_preferences=True), nodes) == {"a"}
