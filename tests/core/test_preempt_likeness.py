"""Nodes that are alike but for names get one answer; others never get each other's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core import preempt
from scheduler_ext.core.departures import Departures
from scheduler_ext.core.gpu import Device, Holder
from scheduler_ext.core.node import BoundPod, NodeInfo
from scheduler_ext.core.policy import Policy
from scheduler_ext.core.preempt import Preemption
from scheduler_ext.core.request import GpuRequest
from tests.core.asked import share, whole
from tests.core.preempt_oracle import HEADROOM_PERCENT, NAMES, Question
from tests.core.preempt_strategies import mig_nodes, mixed_nodes, questions, share_nodes, whole_nodes
from tests.core.reported import SHARE, WHOLE, bound, device, node, wants

anything = st.one_of(*(questions(kind()) for kind in (whole_nodes, mig_nodes, share_nodes, mixed_nodes)))
# Of few pods and GPUs, so that two nodes are nearly alike.
nearly_alike = st.lists(questions(st.one_of(whole_nodes(), share_nodes())), min_size=2, max_size=6)


def preemption(question: Question) -> Preemption:
    return Preemption(
        question.request,
        question.uid,
        question.other_requests,
        question.budgets,
        Policy(),
        NAMES,
        HEADROOM_PERCENT,
        10**6,
    )


@given(nearly_alike)
def test_what_was_found_for_one_node_never_speaks_for_another(asked: Sequence[Question]) -> None:
    first = asked[0]
    together = preemption(first)
    for question in asked:
        same = replace(question, request=first.request, other_requests=first.other_requests)
        same = replace(same, budgets=first.budgets)
        alone = preemption(same).victims(same.info, same.named, 3)
        assert together.victims(same.info, same.named, 3) == alone


def renamed(info: NodeInfo) -> NodeInfo:
    """The same node with other names for its pods and devices."""

    def holder(one: Holder) -> Holder:
        uid = f"{one.uid}-x" if one.uid is not None else None
        name = f"{one.name}-x" if one.name is not None else None
        return replace(one, uid=uid, name=name)

    def gpu(one: Device) -> Device:
        instances = tuple(
            replace(each, uuid=f"{each.uuid}-x", holder=None if each.holder is None else holder(each.holder))
            for each in one.mig.instances
        )
        holders = tuple(map(holder, one.holders))
        mig = replace(one.mig, instances=instances)
        return replace(one, uuid=f"{one.uuid}-x", index=one.index + 7, mig=mig, holders=holders)

    def pod(one: BoundPod) -> BoundPod:
        told = {name: tuple(f"{uuid}-x" for uuid in uuids) for name, uuids in one.devices.items()}
        return replace(one, uid=f"{one.uid}-x", name=f"{one.name}-x", devices=told)

    assert info.report is not None
    return replace(
        info,
        name="other",
        report=replace(info.report, devices=tuple(map(gpu, info.report.devices))),
        pods=tuple(map(pod, info.pods)),
        nominated=tuple(map(pod, info.nominated)),
        assumed=frozenset(f"{uid}-x" for uid in info.assumed),
    )


@given(anything)
def test_a_node_of_other_names_has_the_same_victims(question: Question) -> None:
    # Which budget counts a pod already is a matter of its name.
    question = replace(question, budgets=tuple(replace(b, disrupted=frozenset()) for b in question.budgets))
    together = preemption(question)
    found = together.victims(question.info, question.named)
    other = together.victims(renamed(question.info), [f"{uid}-x" for uid in question.named])
    event(f"victims: {len(found.uids) if found else None}")
    assert (found is None) == (other is None)
    if found is not None and other is not None:
        assert [uid.removesuffix("-x") for uid in other.uids] == list(found.uids)
        assert other.violations == found.violations


def altered(question: Question, change: int) -> Question:
    """A node that is alike but for one thing."""
    info, first = question.info, question.info.pods[0]
    device = info.report.devices[0] if info.report is not None else None
    assert device is not None
    return (
        lambda: replace(question, named=(*question.named, first.uid)),
        lambda: with_pod(question, replace(first, other_requests={"cpu": Fraction(9)})),
        lambda: with_pod(question, replace(first, other_requests={})),
        lambda: with_pod(question, replace(first, terminating=not first.terminating)),
        lambda: with_pod(question, replace(first, labels={"app": "b"})),
        lambda: with_pod(question, replace(first, labels={})),
        lambda: with_pod(question, replace(first, started_at=2.5)),
        lambda: with_pod(question, replace(first, priority=7)),
        lambda: with_pod(question, replace(first, devices={})),
        lambda: with_pod(question, replace(first, request=question.request)),
        lambda: replace(question, info=replace(info, assumed=frozenset({first.uid}))),
        lambda: with_device(question, replace(device, healthy=not device.healthy)),
        lambda: with_device(question, replace(device, cordoned=not device.cordoned)),
        lambda: with_device(question, replace(device, holders=())),
        lambda: with_device(question, replace(device, memory=replace(device.memory, used_mib=41_000))),
        lambda: replace(question, info=replace(info, freshness="Stale")),
        lambda: replace(question, info=replace(info, allocatable={WHOLE: 1, SHARE: 40_000})),
    )[change]()


def with_pod(question: Question, pod: BoundPod) -> Question:
    pods = tuple(pod if each.uid == pod.uid else each for each in question.info.pods)
    return replace(question, info=replace(question.info, pods=pods))


def with_device(question: Question, device: Device) -> Question:
    report = question.info.report
    assert report is not None
    devices = (device, *report.devices[1:])
    return replace(question, info=replace(question.info, report=replace(report, devices=devices)))


@given(anything, st.lists(st.integers(0, 16), min_size=8, max_size=8, unique=True))
def test_nodes_that_differ_in_one_thing_have_answers_of_their_own(
    question: Question, changes: list[int]
) -> None:
    if not question.info.pods or question.info.report is None or not question.info.report.devices:
        return
    together = preemption(question)
    assert together.victims(question.info, question.named) == preemption(question).victims(
        question.info, question.named
    )
    for change in changes:
        other = altered(question, change)
        alone = preemption(other).victims(other.info, other.named)
        assert together.victims(other.info, other.named) == alone


def gpus(*used_mib: int, start: float = 1.0, name: str = "p") -> NodeInfo:
    """A pod on each GPU, which uses so much of it, each younger than the one before."""
    pods = tuple(
        bound(f"{name}{i}", wants(1, WHOLE), started_at=start * (i + 1)) for i in range(len(used_mib))
    )
    devices = tuple(
        device(i, holders=(Holder(uid=pod.uid), Holder(uid=pod.uid, memory_mib=mib)))
        for i, (pod, mib) in enumerate(zip(pods, used_mib, strict=True))
    )
    return node(*devices, pods=pods, allocatable={WHOLE: len(used_mib)})


def shared(mib: int) -> NodeInfo:
    pods = (bound("p", wants(mib, SHARE), devices={"main": ("GPU-0",)}),)
    return node(device(0), pods=pods, allocatable={SHARE: 73_728})


@pytest.mark.parametrize(
    ("request_", "one", "other", "looked_at"),
    [
        pytest.param(whole(), gpus(5, 5), gpus(5, 5, name="q"), 1, id="other names"),
        pytest.param(whole(), gpus(5, 5), gpus(70, 9), 1, id="other use, where nobody asks for memory"),
        pytest.param(whole(), gpus(5, 5), gpus(5, 5, start=9.0), 1, id="another age, in the same order"),
        pytest.param(whole(), gpus(5, 5), gpus(5, 5, start=-1.0), 1, id="the other way round, who is alike"),
        pytest.param(whole(), gpus(5, 5), gpus(5, 5, start=0.0), 2, id="all of one age"),
        pytest.param(whole(), gpus(5, 5), gpus(5, 5, 5), 2, id="another GPU"),
        pytest.param(
            whole(min_free_mib=9), gpus(5, 5), gpus(70, 9), 2, id="other use, where memory is asked"
        ),
        pytest.param(share(10_000), shared(70_000), shared(71_000), 2, id="other shares"),
    ],
)
def test_equal_nodes_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, request_: GpuRequest, one: NodeInfo, other: NodeInfo, looked_at: int
) -> None:
    seen: list[NodeInfo] = []

    class Watched(Departures):
        def __init__(self, info: NodeInfo, *more: object) -> None:
            seen.append(info)
            super().__init__(info, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(preempt, "Departures", Watched)
    question = Question(one, replace(request_, priority=100), {}, ())
    together = preemption(question)
    assert together.victims(one) is not None
    assert together.victims(other) is not None
    assert len(seen) == looked_at
