"""A cache that knows node a, and what it shows of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.gpu.gpu import Device, Report
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from tests.core.reported import WHOLE

STALE_S, MISSING_S = 150.0, 300.0


def cache_with(
    *devices: Device,
    pods: Sequence[BoundPod] = (),
    allocatable: dict[str, int] | None = None,
    **record: Any,
) -> Cache:
    """A cache that knows these pods on node a, which reported these devices at 0; none: without a report."""
    built = Cache(STALE_S, MISSING_S)
    offered = {WHOLE: len(devices)} if allocatable is None else allocatable
    built.update_node("a", NodeRecord("uid-a", offered, **record), 0.0)
    if devices:
        built.update_report("a", Report(devices), 0.0, 0.0)
    for pod in pods:
        built.confirm(pod, "a", 0.0)
    built.take_changes()
    return built


def info_of(cache: Cache, name: str = "a") -> NodeInfo:
    """The node, which is known."""
    found = cache.info(name)
    assert found is not None
    return found
