"""When the startup taint of a node may go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.node.estimate import estimate_from_labels
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.features.autoscaling.starting import missing_at_start
from tests.core.asked import labelled
from tests.core.reported import NAMES, ONE_G, SHARE, SHARED, WHOLE, device, node, sliced

ONE = {WHOLE: 1}
MIXED = {"mig_strategy": "mixed"}
SLICED = device(0, mig=sliced(("1g.10gb", 0)))
NO_REPORT = "no agent has reported its GPUs"


def of_amd(allocatable: dict[str, int]) -> NodeInfo:
    labels = {"gpu.scheduler-ext.io/model": "MI300X"}
    return NodeInfo("n", estimate=estimate_from_labels(labels, allocatable), allocatable=allocatable)


def no(resource: str) -> str:
    return f"its device plugin does not hand out {resource} yet"


@pytest.mark.parametrize(
    ("info", "missing"),
    [
        pytest.param(node(device(0), allocatable=ONE), None, id="report and plugin are there"),
        pytest.param(replace(labelled("NVIDIA-L4"), allocatable={WHOLE: 8}), NO_REPORT, id="no report yet"),
        pytest.param(of_amd({}), no("amd.com/gpu"), id="AMD, no plugin yet"),
        pytest.param(
            node(device(0), allocatable=ONE, report={"from_slices": True}), NO_REPORT, id="only slices"
        ),
        pytest.param(node(device(0), allocatable={}), no(WHOLE), id="no device plugin yet"),
        pytest.param(node(device(0), allocatable={SHARED: 4}), None, id="replicas under another name"),
        pytest.param(node(allocatable={}), "its agent reports no GPU", id="no GPU"),
        pytest.param(
            node(device(0), allocatable=ONE, changing=True),
            "its labels say that its MIG layout or its driver is being changed",
            id="a MIG layout in the making",
        ),
        pytest.param(node(SLICED, allocatable=ONE, report=MIXED), no(ONE_G), id="no plugin of instances yet"),
        pytest.param(
            node(device(0), allocatable={}, share_node=True),
            f"it does not hand out {SHARE} yet",
            id="shares that are not advertised yet",
        ),
        pytest.param(node(device(0), allocatable={SHARE: 70000}, share_node=True), None, id="shares"),
    ],
)
def test_a_node_has_started_when_its_gpus_are_known_and_handed_out(
    info: NodeInfo, missing: str | None
) -> None:
    assert missing_at_start(info, NAMES) == missing
