"""Reclaim where something fails: a budget, a lost answer, an extender that ends, or two of them."""

from __future__ import annotations

from functools import partial

import pytest

from scheduler_ext.cluster.client.transport import RefusedError
from scheduler_ext.core.errors import ClusterError
from tests.cluster.api.api_faults import After, Refuse, Reset
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import LEASES
from tests.cluster.api.api_requests import Match, Request, writes
from tests.features.idle.reclaim.reclaiming import (
    HOUR_S,
    MINUTE_S,
    WARN_S,
    Cluster,
    Extending,
    evictions,
    warned,
)

SEVERAL = ("lazy-0", "lazy-1", "lazy-2")


# The number of evictions


def test_no_more_than_so_many_pods_are_evicted_within_an_hour(cluster: Cluster) -> None:
    extender = warned(cluster, *SEVERAL, per_hour=2)
    extender.look()
    assert len(cluster.leaving()) == 2
    cluster.age(HOUR_S - 1)
    extender.look()
    assert len(cluster.leaving()) == 2
    assert extender.counts["limited"] == 1, "it is one pod, however often it is looked at"
    cluster.age(1)
    extender.look()
    assert len(cluster.leaving()) == 3


# A budget in the way


def test_a_pod_whose_budget_forbids_it_waits_and_the_others_go(cluster: Cluster, at_once: None) -> None:
    """The refused eviction is none of the two that are allowed."""
    cluster.add("held", labels={"app": "x"})
    cluster.budget("x", allowed=0)
    extender = warned(cluster, *SEVERAL, per_hour=2)
    for _ in range(3):
        extender.look()
    assert len(cluster.leaving()) == 2
    assert "held" not in cluster.leaving()
    assert len(cluster.recorded()) == 2
    assert "uid-held" not in cluster.recorded()
    cluster.budget("x", allowed=1)
    cluster.age(HOUR_S)
    extender.look()
    assert "held" in cluster.leaving()


def test_a_pod_that_may_not_be_evicted_holds_back_no_other(cluster: Cluster, at_once: None) -> None:
    """As in kube-system, or by an admission webhook. The error is said nevertheless."""
    extender = warned(cluster, *SEVERAL, per_hour=3)
    refusal = Refuse(403, "Forbidden", "admission webhook denied the request")
    cluster.server.faults.place(refusal, evictions("lazy-0"), times=None)
    for _ in range(2):
        with pytest.raises(RefusedError, match="webhook denied"):
            extender.look()
    assert cluster.leaving() == ["lazy-1", "lazy-2"]
    assert cluster.recorded() == ["uid-lazy-1", "uid-lazy-2"]


def test_many_pods_that_budgets_hold_take_turns_and_hold_back_no_others(
    cluster: Cluster, at_once: None, few: None
) -> None:
    """More of them than a look writes about."""
    cluster.budget("x", allowed=0)
    extender = Extending(cluster)
    for i in range(5):
        cluster.add(f"held-{i}", labels={"app": "x"})
    for _ in range(2):
        extender.look()
    cluster.age(WARN_S)
    extender.look()
    cluster.add("late")
    for _ in range(2):
        extender.look()
    assert len({each.path for each in cluster.server.log.all(evictions())}) == 5
    assert cluster.warned()["late"] == WARN_S


# An extender that ends


def test_between_warning_and_eviction(cluster: Cluster) -> None:
    """The next one keeps the time of the warning, and writes its Event, which may be lost."""
    cluster.add("lazy")
    Extending(cluster).look()
    cluster.age(WARN_S / 3)
    after = Extending(cluster)
    after.look()
    after.look()
    assert cluster.warned() == {"lazy": WARN_S * 2 / 3}
    assert after.events == [("GPUReclaimWarning", "lazy")]
    assert after.counts == {}
    cluster.age(WARN_S * 2 / 3)
    after.look()
    assert cluster.leaving() == ["lazy"]


def test_between_record_and_eviction(cluster: Cluster) -> None:
    """The pod is recorded once, whoever evicts it."""
    before = warned(cluster, *SEVERAL, per_hour=1)
    cluster.server.faults.place(Reset(), evictions(), times=1)
    with pytest.raises(ClusterError):
        before.look()
    (recorded,) = cluster.recorded()
    assert cluster.leaving() == []
    after = Extending(cluster, per_hour=1)
    after.look()
    cluster.age(2 * MINUTE_S)
    after.look()
    assert [f"uid-{name}" for name in cluster.leaving()] == [recorded]
    assert cluster.recorded() == [recorded]


def test_between_eviction_and_the_end_of_the_pod(cluster: Cluster) -> None:
    """The answer is lost with the extender, and the pod takes its time."""
    before = warned(cluster, "lazy", "other", per_hour=1)
    cluster.server.faults.place(After(Reset()), evictions(), times=1)
    with pytest.raises(ClusterError):
        before.look()
    assert len(cluster.leaving()) == 1
    for _ in range(3):
        cluster.age(MINUTE_S)
        Extending(cluster, per_hour=1).look()
    assert len(cluster.leaving()) == len(cluster.recorded()) == 1
    assert len(cluster.server.log.all(evictions())) == 1


# Two extenders


def test_of_two_extenders_that_record_at_once_one_is_refused(cluster: Cluster) -> None:
    """Both believe to be active; the second one acts between the first one's read and write of the record."""
    one = warned(cluster, *SEVERAL, per_hour=1)
    other = Extending(cluster, per_hour=1)
    other.look()
    cluster.age(2 * MINUTE_S)
    waiting = [other]

    def hook(request: Request) -> Answer | None:
        if writes(LEASES)(request) and waiting:
            waiting.pop().look()
        return None

    cluster.server.hook = hook
    with pytest.raises(RefusedError) as refused:
        one.look()
    assert refused.value.status == 409
    one.look()
    assert len(cluster.leaving()) == len(cluster.recorded()) == 1


def test_two_extenders_warn_a_pod_once(cluster: Cluster) -> None:
    """The watch of the second one is late."""
    cluster.add("lazy")
    one, other = Extending(cluster), Extending(cluster)
    other.late = cluster.state()
    one.look()
    cluster.age(MINUTE_S)
    other.look()
    assert cluster.warned() == {"lazy": WARN_S - MINUTE_S}
    assert other.counts == {}


def opts_out_at(cluster: Cluster, match: Match) -> None:
    """Let the owner of the pod opt out just before such a request is done."""
    changes = [partial(cluster.label, "lazy", "false")]

    def hook(request: Request) -> Answer | None:
        if match(request) and changes:
            changes.pop()()
        return None

    cluster.server.hook = hook


def test_a_pod_that_changes_just_before_its_eviction_stays(cluster: Cluster) -> None:
    extender = warned(cluster, "lazy")
    opts_out_at(cluster, evictions())
    extender.look()
    assert (cluster.leaving(), cluster.recorded()) == ([], [])
    extender.look()
    assert cluster.warned() == {}
