"""A pod's annotations only restrict its nodes: they give it nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given

from scheduler_ext.core.cycle.cycle import FITS, filter_nodes
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.request import GpuRequest
from tests.strategies import clusters, several_requests, snapshot_of

# A pod's request by resources, its priority and its processors; everything else comes from annotations.
OF_THE_POD = ("units", "shares", "priority", "cpu_milli", "by_container")


@given(clusters(), several_requests)
def test_a_pod_that_fits_with_annotations_fits_without(
    cluster: Sequence[NodeInfo], asked: list[GpuRequest]
) -> None:
    snapshot = snapshot_of(cluster)
    for request in asked:
        plain = replace(GpuRequest(), **{key: getattr(request, key) for key in OF_THE_POD})
        fits = filter_nodes(request, snapshot, Policy()).verdict == FITS
        assert not (fits & (filter_nodes(plain, snapshot, Policy()).verdict != FITS)).any()
