"""The API server's own count of binding calls: how many per pod, and how long they take."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.scheduler.exposition import Exposition, Histogram, merged
from tests.e2e.cluster.api import Api

_NAME = "apiserver_request_duration_seconds"
_FENCE = {"resource": "gpureservations"}
_BINDING = {"verb": "POST", "resource": "pods", "subresource": "binding"}


@dataclass(frozen=True, slots=True)
class ApiCalls:
    """Calls since the API server started: reads of reservations, writes of them, and Bindings."""

    read: Histogram
    written: Histogram
    bindings: Histogram

    def since(self, earlier: ApiCalls) -> ApiCalls:
        """The calls after an earlier reading."""
        return ApiCalls(
            self.read.since(earlier.read),
            self.written.since(earlier.written),
            self.bindings.since(earlier.bindings),
        )

    @property
    def writes_per_bind(self) -> float | None:
        """One write serves all binds that wait for it; None if nothing was bound."""
        return self.written.count / self.bindings.count if self.bindings.count else None

    @property
    def reads_per_bind(self) -> float | None:
        """The first bind to a node reads the node's reservation and pods, which others may have written."""
        return self.read.count / self.bindings.count if self.bindings.count else None


def read_calls(api: Api) -> ApiCalls:
    """The present counts. Raises ApiError."""
    lines = [
        line for line in api.text("/metrics").splitlines() if line.startswith((_NAME, f"# TYPE {_NAME}"))
    ]
    found = Exposition("\n".join(lines) + "\n")
    posts, puts = (found.histogram(_NAME, verb=verb, **_FENCE) for verb in ("POST", "PUT"))
    return ApiCalls(
        found.histogram(_NAME, verb="GET", **_FENCE),
        merged((posts, puts)),
        found.histogram(_NAME, **_BINDING),
    )
