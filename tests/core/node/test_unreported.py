"""Nodes that take pods by their allocatable, because no agent reports on them and the administrator allows
it: `inventory.unreported`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given

from scheduler_ext.core.cycle.cycle import FITS, filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.filters import REASONS
from scheduler_ext.core.gpu.gpu import Device, Holder, Report
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.unreported import cause, lacks_agent, remedy
from scheduler_ext.core.request.request import GpuRequest
from tests.core.asked import labelled
from tests.core.reported import ONE_G, SHARE, WHOLE, ask, bound, device, node, sliced, wants
from tests.strategies import node_infos, requests, snapshot_of

PLAIN = Estimate("nvidia", canonical_model("unknown", vendor="nvidia"), 4)
"""Four GPUs that a device plugin hands out, and no label says which."""
ONE, TWO = ask(wants(1, WHOLE)), ask(wants(2, WHOLE))
SICK = "node(s) had unhealthy GPUs"
NO_REPORT = "node(s) had no fresh GPU inventory"
TOO_FEW = "Insufficient nvidia.com/gpu per device"


def plain(allocatable: dict[str, int] | None = None, **fields: Any) -> NodeInfo:
    """A node without a report for five minutes."""
    known: dict[str, Any] = {"estimate": PLAIN, "freshness": "Missing", "by_allocatable": True} | fields
    return NodeInfo("n", allocatable={WHOLE: 4} if allocatable is None else allocatable, **known)


def silent(*devices: Any, freshness: str = "Missing", **fields: Any) -> NodeInfo:
    """A node whose agent reported these devices long ago."""
    known: dict[str, Any] = {"allocatable": {WHOLE: len(devices)}, "by_allocatable": True} | fields
    return node(*devices, freshness=freshness, **known)


def reason(info: NodeInfo, request: GpuRequest) -> str | None:
    """Why the node refuses; None if it fits."""
    decision = filter_nodes(request, snapshot_of([info]), SchedulingPolicy())
    code = int(decision.verdict[decision.snapshot.state_at(info.name)])
    return None if code == FITS else REASONS[code - 1].text


def held_by(uid: str) -> Device:
    return device(0, holders=(Holder(uid=uid),))


P = (bound("p", wants(1, WHOLE)),)
SICK_GPU = device(0, healthy=False)
CORDONED = device(0, cordoned=True)
LABELLED = labelled("NVIDIA-A100-SXM4-80GB")
AMD_ONE = ask(wants(1, "amd.com/gpu"))
AMD = NodeInfo("n", estimate=Estimate("amd", canonical_model("MI300X", vendor="amd"), 8))
HELD = sliced(("1g.10gb", 0), ("1g.10gb", 1), holders={0: Holder(uid="ended")})


@pytest.mark.parametrize(
    ("info", "request_", "expected"),
    [
        pytest.param(plain(), ONE, None, id="a node without any label takes whole GPUs by its allocatable"),
        pytest.param(plain(by_allocatable=False), ONE, NO_REPORT, id="unless the administrator refuses it"),
        pytest.param(plain(pods=(bound("p", wants(3, WHOLE)),)), TWO, TOO_FEW, id="less what pods request"),
        pytest.param(plain(), replace(ONE, models=("H100",)), NO_REPORT, id="no model that no label states"),
        pytest.param(plain(), replace(ONE, min_free_mib=1), NO_REPORT, id="no free memory, which is unknown"),
        pytest.param(LABELLED, replace(ONE, min_memory_mib=1), None, id="the memory that labels state"),
        pytest.param(LABELLED, replace(ONE, min_free_mib=1), NO_REPORT, id="no free memory, which none does"),
        pytest.param(AMD, AMD_ONE, None, id="GPUs of a vendor without an agent"),
        pytest.param(AMD, replace(AMD_ONE, min_free_mib=1), NO_REPORT, id="nor their free memory"),
        pytest.param(
            replace(AMD, estimate=Estimate("amd", canonical_model("", vendor="amd"), 8)),
            replace(AMD_ONE, min_memory_mib=1),
            NO_REPORT,
            id="nor a memory that is unknown",
        ),
        pytest.param(plain(), ask(wants(1000, SHARE)), NO_REPORT, id="memory shares never"),
        pytest.param(plain({WHOLE: 4, ONE_G: 7}), ask(wants(7, ONE_G)), None, id="MIG instances by name"),
        pytest.param(silent(device(0), device(1)), TWO, None, id="a silent agent's GPUs"),
        pytest.param(silent(SICK_GPU, device(1)), TWO, SICK, id="and never a sick one"),
        pytest.param(
            silent(SICK_GPU, device(1), pods=P),
            ONE,
            SICK,
            id="not beside a pod, which may have the healthy one",
        ),
        pytest.param(silent(CORDONED, device(1)), ONE, TOO_FEW, id="none beside a cordoned one"),
        pytest.param(silent(held_by("ended"), device(1)), TWO, None, id="that of a pod that has ended since"),
        pytest.param(silent(held_by("p"), device(1), pods=P), TWO, TOO_FEW, id="not of one that runs on"),
        pytest.param(
            silent(device(0, mig=HELD), report={"mig_strategy": "mixed"}, allocatable={ONE_G: 2}),
            ask(wants(2, ONE_G)),
            None,
            id="also its instance",
        ),
    ],
)
def test_what_fits_without_a_fresh_report(info: NodeInfo, request_: GpuRequest, expected: str | None) -> None:
    assert reason(info, request_) == expected


def test_a_node_with_a_report_ranks_first() -> None:
    """Even a nearly full one, and even before a node that lost its agent a moment ago."""
    full = replace(node(device(0), device(1), pods=P), name="reported")
    infos = [full, replace(plain(), name="plain"), replace(silent(device(0)), name="silent")]
    decision = filter_nodes(ONE, snapshot_of(infos), SchedulingPolicy())
    totals = {info.name: decision.totals[decision.snapshot.state_at(info.name)] for info in infos}
    assert totals["reported"] > max(totals["plain"], totals["silent"])


@given(node_infos(), requests())
def test_nothing_is_handed_out_twice_without_a_fresh_report(info: NodeInfo, request: GpuRequest) -> None:
    """No more than allocatable less the requests, and than the GPUs that were healthy at last; whatever fits
    asks no memory that only a report knows."""
    if not info.by_allocatable or reason(info, request) is not None:
        return
    held = [pod for pod in info.pods if pod.holds]
    for wanted in request.units:
        requested = sum(
            each.count for pod in held for each in pod.request.units if each.resource == wanted.resource
        )
        if info.allocatable is not None:
            assert wanted.count <= info.allocatable.get(wanted.resource, 0) - requested
        report = info.report
        if report is not None and wanted.profile is None and report.sharing_strategy == "none":
            event("whole GPUs of an old report")
            if report.mig_strategy != "single":
                assert wanted.count <= sum(each.healthy for each in info.devices)
    assert request.shares is None
    assert info.freshness == "Fresh" or not request.units or request.min_free_mib == 0


SLICES = NodeInfo("n", report=Report((device(0),), from_slices=True), agent_label="lacks")


@pytest.mark.parametrize(
    ("info", "why", "what"),
    [
        pytest.param(
            silent(device(0), report={"reported_at": "2026-11-03T10:00:00Z"}),
            "its last report of 2026-11-03T10:00:00Z is too old",
            "get pods --field-selector spec.nodeName=n",
            id="an agent fell silent",
        ),
        pytest.param(
            plain(agent_label="keeps away"),
            "its label gpu.scheduler-ext.io/agent keeps the agent away",
            "may run there, with `kubectl label node n gpu.scheduler-ext.io/agent=true --overwrite`",
            id="an administrator's label",
        ),
        pytest.param(
            plain(agent_label="brings"),
            "no agent has reported on it",
            "kubectl -n gpu-scheduler-agent get pods",
            id="an agent that cannot read the GPUs",
        ),
        pytest.param(AMD, "only NVIDIA GPUs have an agent", "none", id="another vendor has no agent"),
        pytest.param(
            SLICES, "it has no report", "bring an agent to n with", id="ResourceSlices alone list its GPUs"
        ),
    ],
)
def test_the_cause_and_the_remedy(info: NodeInfo, why: str, what: str) -> None:
    assert why in cause(info)
    assert what in (remedy(info) or "none")


FRESH = silent(device(0), freshness="Fresh", agent_label="lacks")


@pytest.mark.parametrize(
    ("info", "lacking"),
    [
        pytest.param(plain(agent_label="lacks"), True, id="NVIDIA's device plugin alone"),
        pytest.param(plain(agent_label="brings"), False, id="a label that brings an agent"),
        pytest.param(plain(agent_label="keeps away"), False, id="a label that keeps the agent away"),
        pytest.param(FRESH, False, id="an agent reports anyway"),
        pytest.param(silent(device(0), agent_label="lacks"), True, id="it reports no more"),
        pytest.param(SLICES, True, id="ResourceSlices are no agent's report"),
    ],
)
def test_nodes_that_lack_an_agent(info: NodeInfo, lacking: bool) -> None:
    assert lacks_agent(info, has_nvidia=True) is lacking
