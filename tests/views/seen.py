"""Nodes and clusters as views see them, from objects of the API."""

from __future__ import annotations

from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.sources.clusterstate import ClusterState, state_of
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects
from tests.core.reported import NAMES
from tests.kube_objects import Json, inventory
from tests.strategies import resolved, snapshot_of


def infos_of(*objects: Json) -> list[NodeInfo]:
    return list(assemble(read_objects(inventory(*objects)), NAMES).values())


def info_of(*objects: Json) -> NodeInfo:
    """The one node of these objects."""
    (info,) = infos_of(*objects)
    return info


def nodes_of(*objects: Json) -> dict[str, Node]:
    return resolved(infos_of(*objects))


def seen(*objects: Json) -> Snapshot:
    return snapshot_of(infos_of(*objects))


def state(*objects: Json, config: Configuration | None = None) -> ClusterState:
    resources = (config or Configuration()).resource_names()
    return state_of(read_objects(inventory(*objects)), "test", resources)
