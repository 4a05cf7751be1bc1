"""The GPU resources that nodes offer, for advice to a pod that fits nowhere."""

from __future__ import annotations

import pytest

from scheduler_ext.core.filters.counts import offers
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.state import resolve
from tests.core.reported import NAMES, ONE_G, WHOLE, device, node


@pytest.mark.parametrize(
    ("info", "resources"),
    [
        pytest.param(node(device(0), allocatable={WHOLE: 1, ONE_G: 7}), {WHOLE, ONE_G}, id="its allocatable"),
        pytest.param(
            node(device(0), allocatable={WHOLE: 1, ONE_G: 0}), {WHOLE}, id="but none of an amount of 0"
        ),
        pytest.param(
            node(device(0, healthy=False), allocatable={WHOLE: 0}),
            {WHOLE},
            id="a sick GPU that the device plugin withdrew",
        ),
        pytest.param(node(device(0)), {WHOLE}, id="all GPUs of a node without a Node object"),
    ],
)
def test_a_node_offers(info: NodeInfo, resources: set[str]) -> None:
    assert set(offers([resolve(info, NAMES, 10)])) == resources
