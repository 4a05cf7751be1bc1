"""What a cache shows of a node."""

from __future__ import annotations

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.node.node import NodeInfo


def info_of(cache: Cache, name: str = "a") -> NodeInfo:
    """The node, which is known."""
    found = cache.info(name)
    assert found is not None
    return found
