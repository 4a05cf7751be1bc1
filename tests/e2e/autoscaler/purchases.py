"""What an autoscaler bought, and the fewest nodes that would have sufficed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.e2e.autoscaler.node_groups import CAPACITY_TYPE
from tests.e2e.cluster.api import Api, ApiError, Json


@dataclass(frozen=True, slots=True)
class Purchase:
    """A NodeClaim that was created, or whose deletion began (`returned`); `at` is monotonic."""

    name: str
    group: str
    at: float
    returned: bool = False


class Purchases:
    """Use `watched_purchases`. All NodeClaims from the start on."""

    def __init__(self, api: Api, path: str) -> None:
        self._api = api
        self._path = path
        self._found: dict[tuple[str, bool], Purchase] = {}
        self._capacity_types: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="purchases", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch."""
        self._stopping.set()
        self._thread.join()

    def since(self, start: float, returned: bool = False) -> list[Purchase]:
        """What was bought, or returned, from a moment on."""
        return [each for each in list(self._found.values()) if each.at >= start and each.returned == returned]

    def capacity_type(self, purchase: Purchase) -> str:
        """Spot or on-demand; empty until the provider has decided."""
        return self._capacity_types.get(purchase.name, "")

    def _watch(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(ApiError, ConnectionError):
                for kind, claim in self._api.watch(self._path, self._stopping.is_set):
                    self._note(claim, kind == "DELETED" or "deletionTimestamp" in claim["metadata"])

    def _note(self, claim: Json, returned: bool) -> None:
        meta = claim["metadata"]
        group = meta["labels"].get("karpenter.sh/nodepool", "")
        key = (meta["name"], returned)
        self._found.setdefault(key, Purchase(meta["name"], group, time.monotonic(), returned))
        if CAPACITY_TYPE in meta["labels"]:
            self._capacity_types[meta["name"]] = meta["labels"][CAPACITY_TYPE]


@contextlib.contextmanager
def watched_purchases(api: Api, path: str) -> Iterator[Purchases]:
    """Record all NodeClaims until the end."""
    purchases = Purchases(api, path)
    purchases.start()
    try:
        yield purchases
    finally:
        purchases.stop()
