"""The free GPUs of a node: without any holder, even of a part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.state import resolve
from tests.core.node.test_unknown_devices import ESTIMATED
from tests.core.reported import NAMES, SHARE, WHOLE, bound, device, node, sliced, wants

SLICES = NodeInfo(
    "n", estimate=Estimate("nvidia", canonical_model("A10"), 2, sharing_strategy="time-slicing", replicas=4)
)
FOUR = node(*(device(i) for i in range(4)))


@pytest.mark.parametrize(
    ("info", "free"),
    [
        pytest.param(node(device(0), device(1, healthy=False)), 1, id="but not a sick one"),
        pytest.param(
            replace(FOUR, pods=(bound("p", wants(3, WHOLE)),)),
            1,
            id="GPUs that are held and not known count as the free ones",
        ),
        pytest.param(replace(FOUR, freshness="Missing"), 0, id="none of a node whose agent is missing"),
        pytest.param(
            replace(ESTIMATED, allocatable={WHOLE: 2}), 2, id="no more than its device plugin offers"
        ),
        pytest.param(
            replace(ESTIMATED, allocatable={WHOLE: 4}, pods=(bound("p", wants(3, WHOLE)),)),
            1,
            id="less what pods request of these",
        ),
        pytest.param(
            replace(FOUR, freshness="Missing", by_allocatable=True, allocatable={SHARE: 1}, share_node=True),
            0,
            id="none of a silent node for shares, which takes none",
        ),
        pytest.param(
            node(
                device(0, mig=sliced(("1g.10gb", 0))),
                device(1),
                report={"mig_strategy": "mixed"},
                freshness="Missing",
                by_allocatable=True,
                allocatable={WHOLE: 0, "nvidia.com/mig-1g.10gb": 1},
            ),
            1,
            id="but a partitioned one, which is handed out in instances",
        ),
        pytest.param(
            replace(SLICES, allocatable={"nvidia.com/gpu.shared": 5}),
            1,
            id="of time slices the whole GPUs that are left",
        ),
    ],
)
def test_free_gpus(info: NodeInfo, free: int) -> None:
    assert resolve(info, NAMES, 10).free_gpus == free


def test_a_node_names_each_of_its_models_once() -> None:
    assert resolve(FOUR, NAMES, 10).models == ("A100-80GB",)
    assert resolve(NodeInfo("n", allocatable={}), NAMES, 10).models == ()
