"""The watches of `resource.k8s.io`, which begin once the cluster was found to serve it."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from scheduler_ext.background import Background, RateLimiter
from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.client.retry import Backoff, Retry
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.dra.device_handlers import KINDS, DeviceHandler
from scheduler_ext.cluster.dra.discovery import discovered, other_versions
from scheduler_ext.cluster.reflector import Reflector
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.sources.source_status import Check
from scheduler_ext.wire.dra.resource_api import RULES
from scheduler_ext.wire.watching import Decoder

log = logging.getLogger(__name__)

# How often this thread checks whether it should stop or look again.
_LOOK_S = 1.0


class DeviceWatches(Background):
    """Finds out once whether the cluster has Dynamic Resource Allocation, and then follows it. A cluster that
    has none is asked again when a lost watch is back, because its API server may have been upgraded."""

    def __init__(
        self,
        transport: Transport,
        locked: LockedCache,
        resources: ResourceNames,
        changed: Callable[[], None],
        rate_limiter: RateLimiter,
    ) -> None:
        super().__init__("discovery-dra")
        self._transport = transport
        self._parts = (locked, resources, changed)
        self._rate_limiter = rate_limiter
        self._changed = changed
        self._known = False
        self._problem: str | None = None
        # The warning about other versions.
        self._others: str | None = None
        self._paths: Mapping[str, str] = {}
        self.reflectors: tuple[Reflector[Any], ...] = ()

    @property
    def settled(self) -> bool:
        """Whether everything that the cluster has, and allows to read, was listed."""
        return self._known and all(reflector.settled for reflector in self.reflectors)

    @property
    def rules_path(self) -> str | None:
        """The path of DeviceTaintRules, once everything was listed; None where the cluster has none."""
        if not self._known or not all(reflector.synced.is_set() for reflector in self.reflectors):
            return None
        return self._paths.get(RULES)

    def check(self) -> Check:
        """The condition for readiness that the cluster answered what it has."""
        return Check("discovery-dra", self._known, self._problem or self._others)

    def run(self) -> None:
        server = self._transport.server
        while not self.stopped.is_set():
            asked_at = time.monotonic()
            if not self._discover() or self.reflectors:
                return
            while server.watch_back_at <= asked_at and not self.stopped.wait(_LOOK_S):
                pass

    def _discover(self) -> bool:
        """Ask until the cluster answers; False if this was stopped before."""
        retry = Retry(self._transport.server, Backoff())
        while True:
            try:
                paths = discovered(self._transport)
                others = other_versions(self._transport) if not paths else None
                break
            except ClusterError as error:
                if self._problem is None:
                    log.warning("discovery of resource.k8s.io failed, trying again: %s", error)
                self._problem = f"not answered yet: {error}"
                retry.failed(error)
            if not retry.wait(self.stopped):
                return False
        self._problem = None
        if others is not None and others != self._others:
            log.warning("%s", others)
        self._others = others
        self._paths = paths
        if self.stopped.is_set():
            return False
        self.reflectors = tuple(
            Reflector(
                name,
                self._transport,
                path,
                Decoder(KINDS[name].object),
                DeviceHandler(KINDS[name], *self._parts),
                self._rate_limiter,
                optional=True,
            )
            for name, path in paths.items()
        )
        for reflector in self.reflectors:
            reflector.start()
        self._known = True
        self._changed()
        return True
