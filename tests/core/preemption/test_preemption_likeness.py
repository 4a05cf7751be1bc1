"""Nodes that differ only in names get one answer; other nodes never share answers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.gpu.gpu import Device, Holder, Memory
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.preemption import preemption as preemption_module
from scheduler_ext.core.preemption.disruption import Budget, PodSelector, budgets_of, most_important_first
from scheduler_ext.core.preemption.dry_run import DryRun
from scheduler_ext.core.preemption.node_likeness import likeness
from scheduler_ext.core.request.request import GpuRequest, ShareRequest
from tests.core.asked import share, whole
from tests.core.preemption.preempt_oracle import Question
from tests.core.preemption.preempt_strategies import questions, share_nodes, whole_nodes
from tests.core.preemption.test_preemption_oracle import anything, preemption
from tests.core.reported import SHARE, WHOLE, ask, bound, device, node, sliced, wants

# With few pods and GPUs, so that two nodes are nearly alike.
nearly_alike = st.lists(questions(st.one_of(whole_nodes(), share_nodes())), min_size=2, max_size=6)


@given(nearly_alike)
def test_a_result_for_one_node_is_never_used_for_another(asked: Sequence[Question]) -> None:
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
    # The name of a pod decides which budget counts it.
    question = replace(question, budgets=tuple(replace(b, disrupted=frozenset()) for b in question.budgets))
    together = preemption(question)
    found = together.victims(question.info, question.named)
    other = together.victims(renamed(question.info), [f"{uid}-x" for uid in question.named])
    event(f"victims: {len(found.uids) if found else None}")
    assert (found is None) == (other is None)
    if found is not None and other is not None:
        assert [uid.removesuffix("-x") for uid in other.uids] == list(found.uids)
        assert other.violations == found.violations


FIRST = bound(
    "a",
    wants(10_000, SHARE),
    priority=1,
    devices={"main": ("GPU-0",)},
    labels={"app": "a"},
    started_at=1.0,
    other_requests={"cpu": Fraction(1)},
)
SECOND = bound("b", wants(1, WHOLE), priority=1, started_at=2.0)
BASE = node(
    device(0, holders=(Holder(uid=FIRST.uid, memory_mib=500),)),
    device(1, holders=(Holder(uid=SECOND.uid),)),
    pods=(FIRST, SECOND),
    allocatable={WHOLE: 2},
)
PREEMPTOR = replace(share(10_000), priority=100)
BUDGET = Budget("ns", "pdb", PodSelector({"app": "a"}), 0)


def with_first(**fields: Any) -> NodeInfo:
    return replace(BASE, pods=(replace(FIRST, **fields), SECOND))


def with_gpu(**fields: Any) -> NodeInfo:
    assert BASE.report is not None
    first, *others = BASE.report.devices
    return replace(BASE, report=replace(BASE.report, devices=(replace(first, **fields), *others)))


def with_report(**fields: Any) -> NodeInfo:
    assert BASE.report is not None
    return replace(BASE, report=replace(BASE.report, **fields))


def look(info: NodeInfo, named: Sequence[str] = (), request: GpuRequest = PREEMPTOR) -> Hashable:
    pods = most_important_first(info.pods)
    return likeness(info, pods, budgets_of(pods, [BUDGET]), named, request)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(with_first(priority=2), id="a priority"),
        pytest.param(with_first(started_at=2.0), id="an age"),
        pytest.param(with_first(labels={}), id="a budget"),
        pytest.param(with_first(devices={"main": ("GPU-1",)}), id="the device of a share"),
        pytest.param(with_first(devices={}), id="none reported"),
        pytest.param(with_first(other_requests={"cpu": Fraction(2)}), id="what else a pod holds"),
        pytest.param(with_first(request=SECOND.request), id="what a pod asks"),
        pytest.param(
            with_first(request=replace(FIRST.request, shares=ShareRequest((("main", 9),)))),
            id="how much it asks",
        ),
        pytest.param(
            with_first(request=replace(FIRST.request, by_container=())), id="which container asks it"
        ),
        pytest.param(with_first(terminating=True), id="a pod that is leaving"),
        pytest.param(with_first(finished=True), id="one that has finished"),
        pytest.param(with_first(departed=True), id="one that has departed"),
        pytest.param(replace(BASE, assumed=frozenset({FIRST.uid})), id="a binding under way"),
        pytest.param(replace(BASE, pods=(FIRST,)), id="a pod less"),
        pytest.param(with_gpu(holders=()), id="no pod seen on a GPU"),
        pytest.param(with_gpu(holders=(Holder(uid="z", memory_mib=500),)), id="another pod seen there"),
        pytest.param(with_gpu(holders=(Holder(uid=FIRST.uid),)), id="seen by kubelet"),
        pytest.param(with_gpu(healthy=False), id="a sick GPU"),
        pytest.param(with_gpu(cordoned=True), id="a cordoned one"),
        pytest.param(with_gpu(model=canonical_model("Tesla T4")), id="another model"),
        pytest.param(with_gpu(vendor="amd"), id="another vendor"),
        pytest.param(with_gpu(compute_capability=(9, 0)), id="another capability"),
        pytest.param(with_gpu(memory=Memory(81_920, used_mib=9)), id="another use"),
        pytest.param(with_gpu(mig=sliced(("1g.10gb", 0))), id="an instance"),
        pytest.param(with_report(mig_strategy="single"), id="a MIG strategy"),
        pytest.param(with_report(sharing_strategy="mps", replicas=2), id="a sharing strategy"),
        pytest.param(with_report(cuda_version=(13,)), id="a driver"),
        pytest.param(replace(BASE, freshness="Stale"), id="a stale report"),
        pytest.param(replace(BASE, changing=True), id="a change in progress"),
        pytest.param(replace(BASE, allocatable={WHOLE: 1}), id="its allocated devices"),
        pytest.param(replace(BASE, allocatable=None), id="not known what"),
    ],
)
def test_nodes_are_distinguished_by(other: NodeInfo) -> None:
    assert look(other) != look(BASE)


def test_proposals_distinguish_nodes() -> None:
    looks = [look(BASE, named) for named in ([], ["uid-a"], ["uid-b"], ["uid-a", "uid-b"], ["web"])]
    assert len(set(looks)) == len(looks)
    assert look(BASE, ["web"]) == look(BASE, ["db"])


def test_nodes_with_two_pods_of_one_name_are_never_alike() -> None:
    assert look(replace(BASE, pods=(FIRST, SECOND, replace(SECOND, uid="uid-former")))) is None


def gpus(*used_mib: int, start: float = 1.0, name: str = "p") -> NodeInfo:
    """A pod on each GPU with this use, each younger than the one before."""
    pods = tuple(
        bound(f"{name}{i}", wants(1, WHOLE), started_at=start * (i + 1)) for i in range(len(used_mib))
    )
    devices = tuple(
        device(i, holders=(Holder(uid=pod.uid), Holder(uid=pod.uid, memory_mib=mib)))
        for i, (pod, mib) in enumerate(zip(pods, used_mib, strict=True))
    )
    return node(*devices, pods=pods, allocatable={WHOLE: len(used_mib)})


def shared(mib: int, used_mib: int = 0) -> NodeInfo:
    pods = (bound("p", wants(mib, SHARE), devices={"main": ("GPU-0",)}),)
    gpu = device(0, memory=Memory(81_920, used_mib=used_mib))
    return node(gpu, pods=pods, allocatable={SHARE: 73_728})


@pytest.mark.parametrize(
    ("request_", "one", "other", "looked_at"),
    [
        pytest.param(whole(), gpus(5, 5), gpus(5, 5, name="q"), 1, id="other names"),
        pytest.param(whole(), gpus(5, 5), gpus(70, 9), 1, id="other use, without requests for memory"),
        pytest.param(whole(), gpus(5, 5), gpus(5, 5, start=9.0), 1, id="another age, in the same order"),
        pytest.param(whole(), gpus(5, 5), gpus(5, 5, start=-1.0), 1, id="the other way round, who is alike"),
        pytest.param(whole(), gpus(5, 5), gpus(5, 5, start=0.0), 2, id="all of one age"),
        pytest.param(whole(), gpus(5, 5), gpus(5, 5, 5), 2, id="another GPU"),
        pytest.param(
            whole(min_free_mib=9), gpus(5, 5), gpus(70, 9), 2, id="other use, where memory is asked"
        ),
        pytest.param(share(10_000), shared(70_000), shared(71_000), 2, id="other shares"),
        pytest.param(
            share(10_000), shared(70_000), shared(70_000, 71_000), 2, id="other use of a shared GPU"
        ),
    ],
)
def test_equal_nodes_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, request_: GpuRequest, one: NodeInfo, other: NodeInfo, looked_at: int
) -> None:
    seen: list[NodeInfo] = []

    class Watched(DryRun):
        def __init__(self, info: NodeInfo, *more: object) -> None:
            seen.append(info)
            super().__init__(info, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(preemption_module, "DryRun", Watched)
    question = Question(one, replace(request_, priority=100), {}, ())
    together = preemption(question)
    assert together.victims(one) is not None
    assert together.victims(other) is not None
    assert len(seen) == looked_at


def test_violations_by_unknown_pods_are_counted_in_each_answer() -> None:
    together = preemption(Question(gpus(5), replace(whole(), priority=100), {}, ()))
    found = [together.victims(gpus(5), ["web"], counted) for counted in (2, 0)]
    assert [each.violations for each in found if each is not None] == [2, 0]


def named_shares(name: str) -> NodeInfo:
    """A node of two GPUs with two shares each: the first and the last pod are on the first GPU."""
    pods = tuple(
        bound(f"{name}{i}", wants(36_000, SHARE), started_at=float(i), devices={"main": (f"GPU-{on}",)})
        for i, on in enumerate((0, 1, 1, 0))
    )
    return replace(node(device(0), device(1), pods=pods, share_node=True), name=name)


def test_nodes_that_are_alike_but_for_idle_pods_have_victims_of_their_own() -> None:
    """One request examines many nodes, and remembers the answer for those that are alike. By age, the pods in
    the middle would go."""
    infos = [named_shares(name) for name in "abc"]
    request = replace(ask(wants(70_000, SHARE)), priority=100)
    idle = {"uid-a3", "uid-b2", "uid-b3"}
    asking = replace(preemption(Question(infos[0], request, {}, ())), idle=lambda _: idle)
    found = [asking.victims(info, [pod.uid for pod in info.pods]) for info in infos]
    assert [each and set(each.uids) for each in found] == [
        {"uid-a0", "uid-a3"},
        {"uid-b1", "uid-b2"},
        {"uid-c1", "uid-c2"},
    ]
