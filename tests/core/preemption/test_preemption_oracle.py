"""Laws of preemption on random nodes, against a search that tries every set of pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.node.nominated import with_nominated_pods
from scheduler_ext.core.preemption.preemption import Preemption
from scheduler_ext.core.preemption.victim_candidate import Victims
from tests.core.preemption.preempt_oracle import (
    HEADROOM_PERCENT,
    NAMES,
    Question,
    cost,
    importance,
    violations,
)
from tests.core.preemption.preempt_strategies import (
    mig_nodes,
    mixed_nodes,
    questions,
    share_nodes,
    whole_nodes,
)
from tests.examples import examples

KINDS = {
    "whole GPUs": questions(whole_nodes()),
    "MIG instances": questions(mig_nodes()),
    "shares": questions(share_nodes()),
    "shares beside whole GPUs": questions(mixed_nodes()),
}
ENDLESS = 10**6
anything = st.one_of(*KINDS.values())


def preemption(question: Question, evaluations: int = ENDLESS) -> Preemption:
    return Preemption(
        question.request,
        question.uid,
        question.other_requests,
        question.budgets,
        Sizing(SchedulingPolicy(), NAMES, HEADROOM_PERCENT),
        evaluations,
    )


def answer(question: Question, evaluations: int = ENDLESS) -> Victims | None:
    return preemption(question, evaluations).victims(question.info, question.named)


def evicted(question: Question, victims: Victims) -> list[BoundPod]:
    """The victims that would otherwise stay."""
    return [pod for pod in question.candidates if pod.uid in victims.uids]


def unknown(question: Question) -> list[str]:
    known = {pod.uid for pod in question.seen.pods}
    return [uid for uid in question.named if uid not in known]


def no_pod_to_name(question: Question) -> bool:
    """No victim is needed; of the leaving pods the preemptor needs none and kube-scheduler names none."""
    named = any(pod.uid in question.named for pod in question.leaving)
    return question.suffices([]) and not named and not unknown(question) and question.suffices([], [])


@examples(30, 600)
@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_the_victims_cost_the_least(kind: str, data: st.DataObject) -> None:
    """Of equal sets the one with the fewest pods that compute, and of these the youngest."""
    question = data.draw(KINDS[kind])
    uids = sorted({pod.uid for pod in question.info.pods})
    idle = data.draw(st.sets(st.sampled_from(uids)) if uids else st.just(set()))
    asking = replace(preemption(question), idle=lambda _: idle)
    victims = asking.victims(question.info, question.named)
    sets = question.sufficient()
    event(f"sets: {min(3, len(sets))}")
    if not sets or no_pod_to_name(question):
        assert victims is None
        return

    def whole_cost(pods: Sequence[BoundPod]) -> tuple[float, ...]:
        *before, age = cost(pods, question.budgets)
        return *before, sum(pod.uid not in idle for pod in pods) if idle else 0, age

    assert victims is not None
    best = min(map(whole_cost, sets))
    found = evicted(question, victims)
    event(f"victims: {len(found)}, violations: {best[0]}")
    assert question.suffices(found)
    assert whole_cost(found) == best
    assert victims.violations == best[0]


def filter_accepts(question: Question, gone: Iterable[str]) -> bool:
    """Filter's verdict on the node, as the preemptor may count on it, after these have left."""
    seen = with_nominated_pods(question.info, question.uid, question.request.priority)
    left = set(gone) | {pod.uid for pod in question.leaving}
    pods = tuple(replace(pod, departed=True) if pod.uid in left else pod for pod in seen.pods)
    return replace(question, info=replace(seen, pods=pods), uid="").fits(())


# From an exact search to none: the laws hold for every way to the answer.
budgets_of_search = st.sampled_from((ENDLESS, 8, 2, 0))


@examples(60, 500)
@given(anything, budgets_of_search)
def test_every_answer_is_sufficient_and_lean(question: Question, evaluations: int) -> None:
    """Filter accepts what preempt accepts; the victims are on the node, of lower priority, none of them
    superfluous, and the most important one comes first."""
    victims = answer(question, evaluations)
    if victims is None:
        return
    event(f"victims: {len(victims.uids)}")
    assert filter_accepts(question, victims.uids)
    here = {pod.uid: pod for pod in question.info.pods}
    assert victims.uids
    assert len(set(victims.uids)) == len(victims.uids)
    assert set(unknown(question)) <= set(victims.uids)
    known = [here[uid] for uid in victims.uids if uid in here]
    assert known == sorted(known, key=importance)
    for uid in victims.uids:
        assert uid in here or uid in question.named
        assert uid not in question.info.assumed or uid in question.named
    assert all(pod.holds and pod.priority < question.request.priority for pod in known)
    found = evicted(question, victims)
    for spared in found:
        assert not question.suffices([pod for pod in found if pod is not spared])
    assert victims.violations == violations(found, question.budgets)


@given(anything)
def test_a_set_of_kube_schedulers_that_is_as_cheap_stays(question: Question) -> None:
    named = [pod for pod in question.candidates if pod.uid in question.named]
    victims = answer(question)
    if victims is not None and named and question.suffices(named):
        found = evicted(question, victims)
        same = cost(named, question.budgets) == cost(found, question.budgets)
        event(f"as cheap: {same}")
        if same:
            assert {pod.uid for pod in found} == {pod.uid for pod in named}


@given(anything)
def test_a_leaving_pod_is_named_only_if_kube_scheduler_names_it_or_no_other_is(question: Question) -> None:
    victims = answer(question)
    if victims is not None:
        leaving = {pod.uid for pod in question.leaving}
        named = leaving & set(question.named)
        stay = leaving & set(victims.uids)
        if stay != named:
            assert not named
            assert stay == set(victims.uids)
            # And then only the victims that the pod waits for.
            here = [pod for pod in question.leaving if pod.uid in stay]
            for spared in here:
                assert not question.suffices([], [pod for pod in here if pod is not spared])


@given(anything)
def test_a_refused_node_is_rescuable_exactly_where_some_set_suffices(question: Question) -> None:
    question = replace(question, named=(), other_requests={})
    if not question.fits(()):
        rescuable = preemption(question).rescuable(question.info)
        event(f"rescuable: {rescuable}")
        assert rescuable == bool(question.sufficient())
        assert rescuable == (answer(question) is not None)


@given(anything)
def test_reprieving_suffices_wherever_all_lower_ones_together_do(question: Question) -> None:
    if question.suffices(question.candidates) and not no_pod_to_name(question):
        assert answer(question, 0) is not None


@given(anything)
def test_the_order_of_pods_changes_nothing(question: Question) -> None:
    turned = replace(question, info=replace(question.info, pods=question.info.pods[::-1]))
    assert answer(question) == answer(turned)
