"""Clusters in which some GPUs and some nodes accept nothing new, for the tests of free amounts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from scheduler_ext.core.node.node import NodeInfo
from tests.strategies import clusters


@st.composite
def clusters_with_closed_parts(draw: DrawFn) -> tuple[NodeInfo, ...]:
    """Nodes that are Stale or Missing more often than usual, with some cordoned or unhealthy GPUs."""
    return tuple(_closed(draw, info) for info in draw(clusters(max_kinds=3)))


def _closed(draw: DrawFn, info: NodeInfo) -> NodeInfo:
    info = replace(info, freshness=draw(st.sampled_from(("Fresh", "Fresh", "Stale", "Missing"))))
    if info.report is None:
        return info
    devices = tuple(
        replace(device, cordoned=draw(st.integers(0, 3)) == 0, healthy=draw(st.integers(0, 3)) > 0)
        for device in info.report.devices
    )
    return replace(info, report=replace(info.report, devices=devices))
