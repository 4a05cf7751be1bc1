"""How easily the pods of a node may have to leave it: what a pod of high priority asks of its neighbours."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler_ext.core.node.node import NOBODY, BoundPod


def neighbours(pods: Iterable[BoundPod]) -> int:
    """The rank of the most evictable pod that holds something there, -10 to 10; NOBODY where none does.

    The digits of its priority, so that nodes seldom differ for this alone: clusters number their classes by
    tens as well as by millions.
    """
    lowest = min((pod.priority for pod in pods if pod.holds and pod.request.asks_gpu), default=None)
    if not lowest:
        return NOBODY if lowest is None else 0
    digits = len(str(abs(lowest)))
    return digits if lowest > 0 else -digits
