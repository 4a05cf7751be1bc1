"""Pods that left after the last report: their devices count as free until the next report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.gpu.gpu import Holder, Memory, Report
from tests.core.cache.seen import cache_with, info_of
from tests.core.reported import SHARE, WHOLE, bound, device, free_units, slots, wants

HEADROOM = 8192
P = bound("p", wants(20_000, SHARE), devices={"main": ("GPU-0",)})
Q = bound("q", wants(10_000, SHARE), devices={"main": ("GPU-0",)})
WHOLE_P = bound("p", wants(1, WHOLE))
BY_NAME = Holder(namespace="ns", name="p", container="main")


def share_free(built: Cache) -> int:
    return slots(info_of(built))["GPU-0"].share_free_mib + HEADROOM


@pytest.mark.parametrize(
    ("used_mib", "holders", "before", "after"),
    [
        pytest.param(30_000, (), 51_920, 71_920, id="both used their requests"),
        pytest.param(45_000, (), 36_920, 56_920, id="who used too much is not known: it may be the other"),
        pytest.param(
            45_000,
            (Holder(uid="uid-p", memory_mib=35_000), Holder(uid="uid-q", memory_mib=10_000)),
            36_920,
            71_920,
            id="the agent saw that it was this one",
        ),
    ],
)
def test_memory_is_free_when_its_pod_has_gone(
    used_mib: int, holders: tuple[Holder, ...], before: int, after: int
) -> None:
    built = cache_with(device(0, memory=Memory(81_920, used_mib=used_mib), holders=holders), pods=(P, Q))
    assert share_free(built) == before
    built.remove_pod("uid-p", 10.0)
    assert share_free(built) == after


@pytest.mark.parametrize("leaves", ["is deleted", "finishes"])
def test_a_whole_gpu_is_free_when_its_pod(leaves: str) -> None:
    """The agent still names the pod, and continues to: older kubelets do."""
    named = device(0, holders=(BY_NAME,))
    built = cache_with(named, pods=(WHOLE_P,))
    assert free_units(info_of(built)) == {"GPU-0": {WHOLE: 0}}
    if leaves == "finishes":
        built.confirm(replace(WHOLE_P, finished=True), "a", 10.0)
    else:
        built.remove_pod("uid-p", 10.0)
    assert free_units(info_of(built)) == {"GPU-0": {WHOLE: 1}}
    built.update_report("a", Report((named,)), 100.0, 100.0)
    assert free_units(info_of(built)) == {"GPU-0": {WHOLE: 1}}


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    """A pod of a StatefulSet: the agent knows names only, so it names the new one."""
    built = cache_with(device(0, holders=(BY_NAME,)), device(1), pods=(WHOLE_P,))
    built.remove_pod("uid-p", 10.0)
    built.confirm(replace(WHOLE_P, uid="a-uid-before"), "a", 10.0)
    built.update_report("a", Report((device(0, holders=(BY_NAME,)), device(1))), 20.0, 20.0)
    assert free_units(info_of(built)) == {"GPU-0": {WHOLE: 0}, "GPU-1": {WHOLE: 1}}
