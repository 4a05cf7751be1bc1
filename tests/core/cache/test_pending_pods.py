"""Pods that wait for a node: from their creation until they are bound or deleted."""

from __future__ import annotations

import pytest

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.node.node import PendingPod
from tests.core.reported import WHOLE, bound, wants

POD = bound("p", wants(1, WHOLE))
WAITING = PendingPod(POD, "1", "ours")


@pytest.mark.parametrize("end", ["bound", "gone"])
def test_a_pod_that_is_bound_or_gone_waits_no_longer(end: str) -> None:
    cache = Cache(150, 300)
    cache.update_pending(WAITING)
    assert cache.all_pending() == [WAITING]
    if end == "bound":
        cache.confirm(POD, "a", 0.0)
    else:
        cache.remove_pod(POD.uid, 0.0)
    assert cache.all_pending() == []
    cache.update_pending(WAITING)
    assert cache.pending(POD.uid) is None
