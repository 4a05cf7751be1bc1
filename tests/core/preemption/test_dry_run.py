"""A node without some of its pods, by subtraction, equals the node built without them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.gpu.gpu import Holder
from scheduler_ext.core.node.node import NO_NEIGHBOURS, UNLIMITED, NodeInfo
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.preemption.dry_run import DryRun
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.table import build_snapshot
from tests.core.asked import mig, share, whole
from tests.core.preemption.preempt_strategies import mig_nodes, mixed_nodes, share_nodes, whole_nodes
from tests.core.reported import ONE_G, SHARE, bound, device, node, sliced, wants
from tests.strategies import RESOURCES, node_infos, requests

infos = st.one_of(
    node_infos(),
    *(kind.map(lambda pair: pair[0]) for kind in (whole_nodes(), mig_nodes(), share_nodes(), mixed_nodes())),
)


def departures(info: NodeInfo, request: GpuRequest) -> DryRun:
    return DryRun(info, info.pods, request, Sizing(SchedulingPolicy(), RESOURCES, 10))


def without(info: NodeInfo, gone: tuple[int, ...]) -> NodeInfo:
    return replace(
        info,
        pods=tuple(
            replace(pod, departed=True) if i in gone and pod.holds else pod for i, pod in enumerate(info.pods)
        ),
    )


def some_of(info: NodeInfo) -> st.SearchStrategy[tuple[int, ...]]:
    holding = [i for i, pod in enumerate(info.pods) if pod.holds]
    return st.sets(st.sampled_from(holding)).map(sorted).map(tuple) if holding else st.just(())


@given(infos, st.data())
def test_subtracting_what_pods_hold_is_as_if_they_had_left(info: NodeInfo, data: st.DataObject) -> None:
    all_of_it = departures(info, whole())
    for _ in range(3):
        gone = data.draw(some_of(info))
        event(f"gone: {min(3, len(gone))}")
        expected = resolve(without(info, gone), RESOURCES, 10)
        found = all_of_it.node_without(gone)
        # Filters ignore the neighbours and the free CPU.
        assert found.state == replace(expected.state, neighbours=NO_NEIGHBOURS, cpu_free_milli=UNLIMITED)
        assert found.uuids == expected.uuids


@given(infos, requests(), st.data())
def test_a_request_fits_as_filter_says(info: NodeInfo, request: GpuRequest, data: st.DataObject) -> None:
    sets = [data.draw(some_of(info)) for _ in range(3)]
    fits = []
    for gone in sets:
        snapshot = build_snapshot({"n": resolve(without(info, gone), RESOURCES, 10)}, 0)
        fits.append(bool(filter_nodes(request, snapshot, SchedulingPolicy()).fits[snapshot.state_of[0]]))
    together = departures(info, request)
    assert together.first_fit(sets) == next((s for s, fit in zip(sets, fits, strict=True) if fit), None)
    assert [together.fits(gone) for gone in sets] == fits
    assert together.evaluations == len(set(sets))


def test_the_use_of_a_pod_on_a_gpu_that_it_does_not_hold_leaves_with_it() -> None:
    """Its use of GPU-1 keeps other pods off that GPU until it has gone."""
    elsewhere = Holder(uid="uid-a", memory_mib=70_000)
    pods = (bound("a", wants(1000, SHARE), devices={"main": ("GPU-0",)}),)
    info = node(device(0), device(1, holders=(elsewhere,)), pods=pods)
    both = departures(info, share(60_000, 60_000))
    assert not both.fits(())
    assert both.fits((0,))
    expected = resolve(without(info, (0,)), RESOURCES, 10).state
    assert both.node_without((0,)).state == replace(expected, neighbours=NO_NEIGHBOURS)


def test_either_of_two_pods_of_one_name_may_be_the_holder_that_the_agent_saw() -> None:
    cut = sliced(("1g.10gb", 0), holders={0: Holder(namespace="ns", name="a")})
    pods = (bound("a", wants(1, ONE_G)), replace(bound("a", wants(1, ONE_G)), uid="uid-b"))
    both = departures(node(device(0, mig=cut), pods=pods, report={"mig_strategy": "mixed"}), mig("1g.10gb"))
    assert [both.fits(gone) for gone in ((), (0,), (1,), (0, 1))] == [False, False, False, True]
