"""How many copies of a pod a node takes: exactly as many as placing one after the other."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from scheduler_ext.core.capacity import overallocated
from scheduler_ext.core.node import BoundPod, NodeInfo
from scheduler_ext.core.placement import Placement, Sizing, place
from scheduler_ext.core.policy import STRATEGIES, Policy
from scheduler_ext.core.request import GpuRequest
from scheduler_ext.extender.copies import Vessel, fill_all
from scheduler_ext.extender.rooms import filled, rooms_of
from tests.strategies import RESOURCES, clusters, requests

# More than most of the random nodes hold; a copy at a time takes long.
_MOST = 12


def copy_of(request: GpuRequest, found: Placement, number: int) -> BoundPod:
    """The copy that has been placed."""
    name = f"copy-{number}"
    holding = GpuRequest(request.units, request.shares, by_container=request.by_container)
    return BoundPod(name, "default", name, request.priority, holding, devices=found.devices)


def one_by_one(info: NodeInfo, request: GpuRequest, sizing: Sizing, most: int) -> list[BoundPod]:
    """The copies, each placed by the core beside those before it; none is too much."""
    copies: list[BoundPod] = []
    while len(copies) < most:
        there = replace(info, pods=(*info.pods, *copies))
        found = place(there, request, sizing)
        if isinstance(found, str):
            break
        copies.append(copy_of(request, found, len(copies)))
        assert overallocated(there, copies[-1], RESOURCES) is None
    return copies


@settings(max_examples=150)
@given(clusters(), requests(), st.sampled_from(STRATEGIES), st.sampled_from((0, 10)))
def test_as_many_as_one_by_one(
    infos: tuple[NodeInfo, ...], request: GpuRequest, strategy: str, headroom_percent: int
) -> None:
    sizing = Sizing(Policy(strategy=strategy), RESOURCES, headroom_percent)
    nodes = [sizing.resolved(info) for info in infos]
    vessels = [Vessel(node, rooms_of(node, sizing), _MOST) for node in nodes]
    fills = fill_all(vessels, request, sizing)
    for node, fill in zip(nodes, fills, strict=True):
        copies = one_by_one(node.info, request, sizing, _MOST)
        event(f"{'shares' if request.shares else 'units'}: {min(len(copies), 3)} copies")
        assert fill.copies == len(copies)
        after = replace(node.info, pods=(*node.info.pods, *copies))
        merged = filled(node, request, fill, sizing)
        if fill.copies < _MOST:
            assert place(merged, request, sizing) == place(after, request, sizing)
        # Of single shares it is left open which GPU has how many where not all of them are full.
        if request.shares is None or len(request.shares.by_container) > 1:
            states = [replace(sizing.resolved(each).state, neighbours=0) for each in (merged, after)]
            assert states[0] == states[1]
