"""The victims on a node for a pod of higher priority: rows are sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.gpu.gpu import Holder, Memory
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.preemption.disruption import Budget, PodSelector
from scheduler_ext.core.preemption.preemption import Preemption
from scheduler_ext.core.preemption.victim_candidate import Victims
from scheduler_ext.core.request.request import GpuRequest
from tests.core.asked import share, whole
from tests.core.reported import NAMES, SHARE, WHOLE, bound, device, node, wants

PRIORITY = 100


def on_gpu(name: str, priority: int = 0, count: int = 1, **fields: Any) -> BoundPod:
    """A pod that holds so many whole GPUs."""
    return bound(name, wants(count, WHOLE), priority=priority, **fields)


def gpus(*holders: BoundPod | None, **fields: Any) -> NodeInfo:
    """A GPU for each entry, held by that pod or free; allocatable by the number of GPUs."""
    devices = [
        device(i, holders=(Holder(uid=pod.uid),) if pod is not None else ()) for i, pod in enumerate(holders)
    ]
    pods = tuple({pod.uid: pod for pod in holders if pod is not None}.values())
    return node(*devices, pods=pods, **({"allocatable": {WHOLE: len(holders)}} | fields))


def on_share(name: str, mib: int, gpu: int, priority: int = 0, **fields: Any) -> BoundPod:
    """A pod with a share of that GPU."""
    told = {"devices": {"main": (f"GPU-{gpu}",)}}
    return bound(name, wants(mib, SHARE), priority=priority, **(told | fields))


def shares(*pods: BoundPod, count: int = 2, **fields: Any) -> NodeInfo:
    """GPUs of 73728 MiB for shares each."""
    allocatable = {SHARE: 73_728 * count}
    return node(*(device(i) for i in range(count)), pods=pods, **({"allocatable": allocatable} | fields))


def preempt(
    info: NodeInfo,
    request: GpuRequest,
    named: Sequence[str] = (),
    budgets: Sequence[Budget] = (),
    asks: dict[str, int] | None = None,
    counted: int = 0,
    evaluations: int = 10_000,
) -> Victims | None:
    """The victims for a pod of priority 100."""
    request = replace(request, priority=PRIORITY)
    other = {name: Fraction(amount) for name, amount in (asks or {}).items()}
    preemption = Preemption(
        request, "uid-me", other, budgets, Sizing(SchedulingPolicy(), NAMES, 10), evaluations
    )
    return preemption.victims(info, [f"uid-{name}" for name in named], counted)


def names(victims: Victims | None) -> str | None:
    return " ".join(uid.removeprefix("uid-") for uid in victims.uids) if victims is not None else None


def guard(label: str, allowed: int = 0) -> Budget:
    return Budget("ns", "pdb", PodSelector({"app": label}), allowed)


A, B = {"app": "a"}, {"app": "b"}


@pytest.mark.parametrize(
    ("info", "request_", "victims"),
    [
        pytest.param(gpus(on_gpu("a", 5), on_gpu("b", 3)), whole(), "b", id="the lower priority goes"),
        pytest.param(
            gpus(on_gpu("a", 7), on_gpu("b", 7), on_gpu("c", 7), on_gpu("d", 7, 2), on_gpu("d", 7, 2)),
            whole(2),
            "d",
            id="least in total: one of two GPUs before two of one",
        ),
        pytest.param(
            gpus(on_gpu("a", 0, started_at=9.0), on_gpu("b", 0, started_at=5.0)),
            whole(),
            "a",
            id="the youngest",
        ),
        pytest.param(gpus(on_gpu("a", 100)), whole(), None, id="equal priority stays"),
        pytest.param(
            gpus(on_gpu("a", 0), freshness="Missing"), whole(), None, id="a node nothing recent is known of"
        ),
        pytest.param(
            gpus(on_gpu("a", 0), assumed=frozenset({"uid-a"})), whole(), None, id="a binding under way"
        ),
        pytest.param(
            gpus(on_gpu("a", 0), nominated=(on_gpu("w", 200),)),
            whole(),
            None,
            id="the place waits for another",
        ),
        pytest.param(
            node(
                device(0, holders=(Holder(uid="uid-a"),), healthy=False),
                device(1, holders=(Holder(uid="uid-b"),)),
                pods=(on_gpu("a", 0), on_gpu("b", 5)),
            ),
            whole(),
            "b",
            id="a sick GPU helps no pod, however low its own pod",
        ),
        pytest.param(
            gpus(on_gpu("a", 1), on_gpu("b", 5, terminating=True)),
            whole(),
            "b",
            id="who leaves anyway costs nothing",
        ),
        pytest.param(
            gpus(on_gpu("a", 1, terminating=True), on_gpu("b", 5, terminating=True)),
            whole(),
            "a",
            id="only who is waited for",
        ),
        pytest.param(
            shares(on_share("stays", 33_728, 0, 500), on_share("a", 40_000, 0), count=1),
            share(40_000),
            "a",
            id="room for the share exactly",
        ),
        pytest.param(
            shares(on_share("a", 70_000, 0, devices={}), on_share("b", 70_000, 1)),
            share(60_000),
            "a",
            id="a share on an unreported device closes the node until it leaves",
        ),
        pytest.param(
            node(
                device(
                    0,
                    memory=Memory(81_920, used_mib=60_000),
                    holders=(Holder(uid="uid-a", memory_mib=60_000),),
                ),
                pods=(on_share("a", 10_000, 0), on_share("b", 10_000, 0, 5)),
            ),
            share(50_000),
            "a",
            id="what a pod uses beyond its share counts as its own",
        ),
        pytest.param(
            shares(
                on_share("a", 1000, 0, 1),
                on_share("b", 1000, 0, 9),
                on_share("c", 1000, 1, 2),
                on_share("d", 1000, 1, 3),
                allocatable=None,
            ),
            whole(),
            "d c",
            id="a whole GPU is free when all shares on it have gone",
        ),
    ],
)
def test_the_victims_are(info: NodeInfo, request_: GpuRequest, victims: str | None) -> None:
    assert names(preempt(info, request_)) == victims


THREE = (on_gpu("a", 1, labels=A), on_gpu("b", 5, labels=B), on_gpu("c", 9))


@pytest.mark.parametrize(
    ("budgets", "count", "victims", "violations"),
    [
        pytest.param([guard("a")], 1, "b", 0, id="a higher priority before a violation"),
        pytest.param([guard("a"), guard("b")], 2, "c a", 1, id="one violation before two"),
    ],
)
def test_budgets(budgets: list[Budget], count: int, victims: str, violations: int) -> None:
    found = preempt(gpus(*THREE), whole(count), budgets=budgets)
    assert found is not None
    assert (names(found), found.violations) == (victims, violations)


EQUAL = (on_gpu("a", 5, started_at=1.0), on_gpu("b", 5, started_at=1.0), on_gpu("c", 9))
CPU: dict[str, Any] = {"other_requests": {"cpu": Fraction(4)}}


@pytest.mark.parametrize(
    ("info", "count", "named", "asks", "victims"),
    [
        pytest.param(gpus(*EQUAL), 1, "a", {}, "a", id="its victim is as good as another"),
        pytest.param(
            gpus(on_gpu("a", 1), on_gpu("b", 5, **CPU)), 1, "b", {"cpu": 4}, "b", id="CPU that only it frees"
        ),
        pytest.param(gpus(None, on_gpu("b", 5)), 1, "b", {}, "b", id="a place for one more pod, at least"),
        pytest.param(gpus(*EQUAL), 1, "web c", {}, "web b", id="a pod without GPUs stays, and first"),
        pytest.param(
            gpus(on_gpu("a", 1), on_gpu("b", 5), assumed=frozenset({"uid-a"})),
            1,
            "a",
            {},
            "a",
            id="one whose binding is under way, which it knows there",
        ),
        pytest.param(
            shares(
                on_share("a", 1000, 0, 1),
                on_share("a", 1000, 1, 1),
                assumed=frozenset({"uid-a"}),
                allocatable=None,
            ),
            1,
            "a",
            {},
            None,
            id="nor one that two extenders bind to different GPUs",
        ),
    ],
)
def test_the_answer_to_a_proposal_of_kube_scheduler(
    info: NodeInfo, count: int, named: str, asks: dict[str, int], victims: str | None
) -> None:
    assert names(preempt(info, whole(count), named.split(), asks=asks)) == victims


def test_violations_of_unknown_victims_are_as_kube_scheduler_counts_them() -> None:
    info = gpus(on_gpu("a", 5, labels=A))
    found = preempt(info, whole(), ["web", "a"], [guard("a")], counted=2)
    assert found == Victims(("uid-web", "uid-a"), 2)
    assert preempt(info, whole(), ["a"], [guard("a")], counted=7) == Victims(("uid-a",), 1)


def test_two_pods_of_one_name_are_two() -> None:
    """The agent's observation by name counts for the existing pod; both may have to leave."""
    by_name = (Holder(namespace="ns", name="a"),)
    pods = (on_gpu("a", 1), replace(on_gpu("a", 3), uid="uid-other"))
    info = node(device(0, holders=by_name), device(1), pods=pods, allocatable={WHOLE: 2})
    assert names(preempt(info, whole())) == "a"
    assert names(preempt(info, whole(2))) == "other a"
