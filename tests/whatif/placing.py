"""Pods that a dry run places one after the other, without evictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.whatif.whatif import PodInfo, WhatIf, read_pod_info
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_pods
from scheduler_ext.wire.pod.pod_identity import pod_name
from tests.kube_objects import Json, inventory


class Outcome(NamedTuple):
    """The node of a pod, its devices and their value; or the nearest refusal."""

    node: str | None
    devices: Sequence[Json] = ()
    value_per_hour: float = 0.0
    refusal: Json | None = None


def placed(pods: Sequence[Json], state: ClusterState, config: Configuration | None = None) -> list[Outcome]:
    """The outcome of each of these pods, which have different names."""
    config = config or Configuration()
    cluster = WhatIf(state, config)
    found = []
    for pod in read_pods(inventory(*pods)):
        pod_info = read_pod_info(pod, pod_name(pod), config.resource_names(), state.claims)
        assert isinstance(pod_info, PodInfo), pod_info
        node = cluster.best(pod_info)
        if node is None:
            found.append(Outcome(None, refusal=cluster.refusal(pod_info)))
        else:
            value = cluster.value_per_hour(pod_info, node)
            found.append(Outcome(node, cluster.bind(pod_info, node), value))
    return found


def nodes_of(pods: Sequence[Json], state: ClusterState) -> list[str | None]:
    """The node of each pod."""
    return [each.node for each in placed(pods, state)]
