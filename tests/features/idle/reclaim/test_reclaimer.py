"""Reclaim, step by step: a dry run, a warning, an eviction, and what ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler_ext.core.errors import ClusterError
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import GPU_NODES, LEASES, NAMESPACES, PODS
from tests.cluster.api.api_requests import Request, lists, writes
from tests.features.idle.reclaim.reclaiming import (
    HOUR_S,
    MINUTE_S,
    RECLAIM,
    WARN_S,
    Cluster,
    Extending,
    evictions,
    warned,
)
from tests.kube_objects import Json


def test_a_dry_run_says_once_what_it_would_do(cluster: Cluster) -> None:
    cluster.add("lazy")
    cluster.add("busy", idle_s=0)
    cluster.add("other", namespace="prod")
    extender = Extending(cluster, "dry-run")
    for _ in range(3):
        extender.look()
        cluster.age(MINUTE_S)
    assert extender.events == [("GPUReclaimDryRun", "lazy")]
    (note,) = extender.notes
    assert note.startswith(
        "1 GPU of this pod computed nothing for 2h; with idle.reclaim.mode: evict it would be"
    )
    assert extender.counts == {"dry_run": 1}
    assert not cluster.server.log.all(writes(PODS))


def test_an_idle_pod_is_warned_and_evicted_later(cluster: Cluster) -> None:
    cluster.add("lazy")
    extender = Extending(cluster)
    extender.look()
    assert cluster.warned() == {"lazy": WARN_S}
    assert extender.events == [("GPUReclaimWarning", "lazy")]
    assert "it is evicted at 2027-01-15T08:15:00Z or later, unless it computes before" in extender.notes[0]
    cluster.age(WARN_S - 1)
    extender.look()
    assert cluster.leaving() == []
    cluster.age(1)
    extender.look()
    assert cluster.leaving() == ["lazy"]
    assert cluster.recorded() == ["uid-lazy"]
    (sent,) = cluster.server.log.all(evictions())
    assert sent.json()["deleteOptions"]["preconditions"]["uid"] == "uid-lazy"
    extender.look()
    assert extender.events == [("GPUReclaimWarning", "lazy"), ("GPUReclaimed", "lazy")]
    assert extender.counts == {"warned": 1, "evicted": 1}


def test_no_pod_is_warned_before_the_least_age(cluster: Cluster) -> None:
    cluster.add("young", ran_s=HOUR_S - 1)
    extender = Extending(cluster)
    extender.look()
    assert cluster.warned() == {}
    cluster.age(1)
    extender.look()
    assert cluster.warned() == {"young": WARN_S}


def computes(cluster: Cluster) -> None:
    cluster.idle_s["lazy"] = 10


def opts_out(cluster: Cluster) -> None:
    cluster.label("lazy", "false")


def is_forbidden(cluster: Cluster) -> None:
    cluster.server.store.update(
        NAMESPACES,
        "lab",
        lambda before: before | {"metadata": before["metadata"] | {"labels": {RECLAIM: "false"}}},
    )


def is_unknown(cluster: Cluster) -> None:
    cluster.idle_s["lazy"] = None


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(computes, id="it computes"),
        pytest.param(opts_out, id="its label keeps it"),
        pytest.param(is_forbidden, id="its namespace keeps it"),
        pytest.param(is_unknown, id="its agent no longer sees whether it computes"),
    ],
)
def test_a_warning_ends_when(cluster: Cluster, happens: Callable[[Cluster], None]) -> None:
    extender = warned(cluster, "lazy")
    happens(cluster)
    extender.look()
    assert (cluster.warned(), cluster.leaving()) == ({}, [])
    assert extender.events == [("GPUReclaimWarning", "lazy"), ("GPUReclaimCancelled", "lazy")]
    assert extender.counts == {"warned": 1, "cancelled": 1}


def owned_by(kind: str) -> Json:
    """A pod that opted in itself."""
    owner = {"apiVersion": "v1", "kind": kind, "name": "owner", "uid": "o", "controller": True}
    return {"ownerReferences": [owner], "labels": {RECLAIM: "true"}}


@pytest.mark.parametrize(
    ("namespace", "metadata", "expected"),
    [
        pytest.param("lab", {}, True, id="its namespace opted in"),
        pytest.param("prod", {}, False, id="neither opted in"),
        pytest.param("prod", {"labels": {RECLAIM: "true"}}, True, id="it opted in itself"),
        pytest.param(
            "lab", {"labels": {RECLAIM: "false"}}, False, id="it stays out of what its namespace allows"
        ),
        pytest.param("lab", {"labels": {RECLAIM: ""}}, False, id="its label is no yes"),
        pytest.param("lab", owned_by("DaemonSet"), False, id="a DaemonSet's comes back to its node at once"),
        pytest.param("lab", owned_by("Node"), False, id="a static pod comes back to its node at once"),
        pytest.param("lab", owned_by("StatefulSet"), True, id="a StatefulSet's may be placed elsewhere"),
    ],
)
def test_which_pods_are_reclaimed(cluster: Cluster, namespace: str, metadata: Json, expected: bool) -> None:
    cluster.add("lazy", namespace=namespace, **metadata)
    Extending(cluster).look()
    assert list(cluster.warned()) == (["lazy"] if expected else [])


def test_a_namespace_that_forbids_it_comes_before_its_pods(cluster: Cluster) -> None:
    is_forbidden(cluster)
    cluster.add("lazy", labels={RECLAIM: "true"})
    Extending(cluster).look()
    assert cluster.warned() == {}


def test_nothing_happens_while_an_agent_is_silent(cluster: Cluster) -> None:
    """Neither an eviction nor the end of a warning; a new report then counts."""
    cluster.add("lazy")
    extender = Extending(cluster)
    extender.look()
    cluster.silent["lazy"] = cluster.now
    cluster.age(HOUR_S)
    extender.look()
    assert list(cluster.warned()) == ["lazy"]
    assert cluster.leaving() == []
    cluster.silent.clear()
    extender.look()
    assert cluster.leaving() == ["lazy"]


@pytest.mark.parametrize(
    ("later_s", "expected"),
    [
        pytest.param(-60.0, [], id="before the warning"),
        pytest.param(-0.5, [], id="within the second of the warning, of which its text is the start"),
        pytest.param(2.0, [], id="after it, if the clocks of two API servers do not differ"),
        pytest.param(61.0, [], id="at the end of a second that both times may share"),
        pytest.param(63.0, ["lazy"], id="surely after it"),
    ],
)
def test_which_reports_evict_a_pod(cluster: Cluster, later_s: float, expected: list[str]) -> None:
    """A warning may be shorter than the age at which a report is stale."""
    cluster.now += 0.7
    cluster.add("lazy")
    extender = Extending(cluster, warn_for="30s")
    extender.look()
    cluster.silent["lazy"] = cluster.now + later_s
    cluster.age(80)
    extender.look()
    assert cluster.leaving() == expected


@pytest.mark.parametrize("warn_for", ["15m", "1h"])
def test_a_later_extender_waits_for_a_report_of_its_own_time(cluster: Cluster, warn_for: str) -> None:
    """With a longer warnFor, the text in the pod names a moment long before the warning."""
    before = warned(cluster, "lazy")
    after = Extending(cluster, warn_for=warn_for)
    cluster.silent["lazy"] = cluster.now
    for _ in range(2):
        after.look()
        cluster.age(70)
    assert (cluster.leaving(), before.counts) == ([], {"warned": 1})
    cluster.silent["lazy"] = cluster.now
    after.look()
    assert cluster.leaving() == ["lazy"]


def test_a_slow_call_makes_no_report_younger(cluster: Cluster) -> None:
    """The age of a report and the server's time are of one moment, the time first."""
    cluster.add("lazy")
    extender = Extending(cluster, warn_for="30s")
    extender.look()
    cluster.age(50)
    cluster.silent["lazy"] = cluster.now

    def hook(request: Request) -> Answer | None:
        if lists(NAMESPACES)(request):
            cluster.age(20)
        return None

    cluster.server.hook = hook
    extender.look()
    assert (cluster.now, cluster.leaving()) == (1_800_000_070.0, [])


def test_a_silent_agent_is_no_new_warning(cluster: Cluster) -> None:
    cluster.add("lazy")
    extender = Extending(cluster)
    for silent in (False, True, False):
        cluster.silent = {"lazy": cluster.now - HOUR_S} if silent else {}
        extender.look()
    assert extender.events == [("GPUReclaimWarning", "lazy")]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("2099-01-01T00:00:00Z", id="a year that never comes"),
        pytest.param("soon", id="no time"),
    ],
)
def test_a_time_that_this_extender_did_not_write_is_replaced(cluster: Cluster, text: str) -> None:
    cluster.add("lazy")
    extender = Extending(cluster)
    cluster.annotate("lazy", text)
    extender.look()
    assert cluster.warned() == {"lazy": WARN_S}
    cluster.age(WARN_S)
    extender.look()
    assert cluster.leaving() == ["lazy"]


def test_the_most_valuable_gpus_come_first(cluster: Cluster) -> None:
    extender = warned(cluster, "cheap", "dear", per_hour=1)
    cluster.server.store.update(
        GPU_NODES,
        "dear",
        lambda before: (
            before | {"status": {"devices": [before["status"]["devices"][0] | {"model": "H100-80GB"}]}}
        ),
    )
    extender.look()
    assert cluster.leaving() == ["dear"]


def test_a_late_watch_evicts_no_pod_that_opted_out(cluster: Cluster) -> None:
    cluster.add("lazy")
    extender = Extending(cluster)
    extender.look()
    extender.late = cluster.state()
    cluster.age(WARN_S)
    opts_out(cluster)
    extender.look()
    assert not cluster.server.log.all(evictions())


def test_a_standby_writes_nothing(cluster: Cluster) -> None:
    cluster.add("lazy")
    extender = Extending(cluster)
    extender.active = False
    extender.look()
    assert (cluster.warned(), extender.events) == ({}, [])


def test_an_unreadable_record_stops_evictions(cluster: Cluster) -> None:
    extender = warned(cluster, "lazy")
    record = {"name": "gpu-scheduler-reclaim", "annotations": {"gpu.scheduler-ext.io/reclaimed": "[]"}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": record}
    cluster.server.store.put("/apis/coordination.k8s.io/v1/namespaces/gpu-scheduler/leases", lease)
    with pytest.raises(ClusterError, match="unreadable; remove it"):
        extender.look()
    cluster.server.store.delete(LEASES, "gpu-scheduler-reclaim", "gpu-scheduler")
    extender.look()
    assert cluster.leaving() == ["lazy"]


def test_a_warning_from_before_the_pod_computed_is_no_warning(cluster: Cluster) -> None:
    """No extender was there to remove it."""
    cluster.add("lazy")
    Extending(cluster).look()
    cluster.age(WARN_S + HOUR_S)
    cluster.idle_s["lazy"] = 1900
    extender = Extending(cluster)
    extender.look()
    assert (cluster.leaving(), cluster.warned()) == ([], {"lazy": WARN_S})
    cluster.age(WARN_S)
    extender.look()
    assert cluster.leaving() == ["lazy"]
