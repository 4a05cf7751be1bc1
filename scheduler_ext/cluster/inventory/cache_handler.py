"""The base of the event handlers that update the scheduler cache, and the cache of nothing yet. Objects are
decoded before the lock is taken, so that it is held for microseconds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.event_handler import EventHandler
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.dra.device_selector import DeviceSelector

T = TypeVar("T")


@dataclass(eq=False)
class CacheHandler(EventHandler[T]):
    """Updates the cache; `changed` is called after each update."""

    _locked: LockedCache
    _resources: ResourceNames
    _changed: Callable[[], None]


def scheduler_cache(config: Configuration) -> Cache:
    """A cache of nothing yet."""
    return Cache(
        *config.inventory_ages_s(),
        config.resource_names(),
        config.bind.enabled,
        DeviceSelector,
        allow_unreported=config.allows_unreported(),
    )
