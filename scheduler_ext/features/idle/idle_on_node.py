"""The idle pods of one node, for preempt."""

import time
from collections.abc import Callable

from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.pod_facts import FactsOfPods
from scheduler_ext.features.idle.idle import idleness


def idle_on_node(locked: LockedCache, facts: FactsOfPods, after_s: float) -> Callable[[NodeInfo], set[str]]:
    """A function that returns the uids of the idle pods on a node."""

    def idle_uids(info: NodeInfo) -> set[str]:
        with locked as cache:
            readings = cache.readings_of(info.name)
        return {each.pod.uid for each in idleness(info, readings, facts, time.time(), after_s).pods}

    return idle_uids
