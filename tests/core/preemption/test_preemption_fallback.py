"""Past its budget the search gives way to reprieving pods one by one, as kube-scheduler itself does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.framework import allocate
from scheduler_ext.core.framework.allocate import place_exactly
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.preemption import preemption as preemption_module
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.preemption.preemption import Preemption
from scheduler_ext.core.preemption.victim_candidate import Victims
from scheduler_ext.core.request.request import ShareRequest
from tests.core.asked import share
from tests.core.preemption.preempt_oracle import HEADROOM_PERCENT, NAMES, Question, importance, violations
from tests.core.preemption.preempt_strategies import mig_nodes, questions, share_nodes, whole_nodes
from tests.core.preemption.test_preemption_oracle import answer
from tests.core.reported import SHARE, bound, device, node, wants


def violating(pods: list[BoundPod], budgets: tuple[Budget, ...]) -> list[bool]:
    """The pods, most important first, that add a violation to those before them."""
    counts = [violations(pods[:end], budgets) for end in range(len(pods) + 1)]
    return [after > before for before, after in pairwise(counts)]


def reprieved(question: Question) -> set[str]:
    """All lower pods removed, then restored one by one: violators of a budget first, then by importance."""
    pods = sorted(question.candidates, key=importance)
    over = violating(pods, question.budgets)
    gone = list(pods)
    for first in (True, False):
        for pod, violates in zip(pods, over, strict=True):
            fewer = [other for other in gone if other is not pod]
            if violates == first and question.suffices(fewer):
                gone = fewer
    return {pod.uid for pod in gone}


@given(st.one_of(questions(share_nodes()), questions(whole_nodes()), questions(mig_nodes())))
def test_the_fallback_reprieves_pods_like_kube_scheduler(question: Question) -> None:
    # Where freed GPUs can be in the way, the order of trials matters.
    plain = not (question.request.models or question.request.min_free_mib)
    devices = question.info.report.devices if question.info.report else ()
    assume(plain and not any(each.cordoned for each in devices))
    question = replace(question, named=())
    if not question.candidates or question.suffices([]) or not question.suffices(question.candidates):
        return
    victims = answer(question, 0)
    assert victims is not None
    event(f"victims: {len(victims.uids)}")
    assert set(victims.uids) == reprieved(question)


def small_shares(count: int, gpus: int) -> NodeInfo:
    """GPUs full of shares of 8192 MiB, each with a different priority."""
    pods = tuple(
        replace(
            bound(f"{gpu}-{i}", wants(8192, SHARE), devices={"main": (f"GPU-{gpu}",)}),
            priority=(7 * i + 3 * gpu) % 23,
        )
        for gpu in range(gpus)
        for i in range(count)
    )
    return node(*(device(i) for i in range(gpus)), pods=pods, allocatable={SHARE: 73_728 * gpus})


def test_kube_schedulers_proposal_stands_where_reprieving_finds_worse() -> None:
    """Of two equal priorities the older is spared first, and with the other one more pod has to leave."""
    told = [{"devices": {"main": (f"GPU-{gpu}",)}} for gpu in range(2)]
    alone = bound("alone", wants(70_000, SHARE), priority=8, started_at=1.0, **told[0])
    one = bound("one", wants(40_000, SHARE), priority=8, started_at=2.0, **told[1])
    two = bound("two", wants(30_000, SHARE), priority=1, started_at=2.0, **told[1])
    info = node(device(0), device(1), pods=(alone, one, two), allocatable={SHARE: 2 * 73_728})
    question = Question(info, replace(share(70_000), priority=100), {}, ())
    assert answer(question, 0) == Victims(("uid-one", "uid-two"), 0)
    assert answer(replace(question, named=("uid-alone",)), 0) == Victims(("uid-alone",), 0)


def test_a_hostile_pod_gets_one_budget_for_placing_its_shares_on_all_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """40 shares that fit a node of 8 GPUs only if most of its pods leave, and barely then."""
    monkeypatch.setattr(preemption_module, "MAX_SEARCH_STEPS", 5000)
    spent: list[int] = []

    def watched(room: Sequence[int], shares: ShareRequest, steps: list[int]) -> tuple[int, ...] | None:
        before = steps[0]
        found = place_exactly(room, shares, steps)
        spent.append(before - steps[0])
        return found

    monkeypatch.setattr(allocate, "place_exactly", watched)
    sizes = [11_000 + 137 * (i * i % 41) for i in range(40)]
    request = replace(share(*sizes), priority=100)
    preemption = Preemption(request, "uid-me", {}, (), Sizing(SchedulingPolicy(), NAMES, HEADROOM_PERCENT))
    for count in (9, 8, 7):
        info = small_shares(count, gpus=8)
        victims = preemption.victims(info)
        question = Question(info, request, {}, ())
        if victims is not None:
            assert question.suffices([pod for pod in question.candidates if pod.uid in victims.uids])
    assert len(spent) > 3
    assert sum(spent) <= 5000 + 8
