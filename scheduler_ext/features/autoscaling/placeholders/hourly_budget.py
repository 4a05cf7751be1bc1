"""The placeholders that all extenders created within an hour: noted in a ConfigMap before each is created, so
that an extender that is killed, or another one, does not begin at 0 again."""

import json
import time
from typing import Any

from scheduler_ext.cluster.client.transport import MERGE, Transport
from scheduler_ext.core.errors import ClusterError

NAME = "gpu-placeholder-budget"
_KEY = "created"
_HOUR_S = 3600.0
_CALL_S = 5.0


class HourlyBudget:
    """At most `per_hour` in any hour. `wall` returns seconds since 1970."""

    def __init__(self, transport: Transport, namespace: str, per_hour: int) -> None:
        self._transport = transport
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{NAME}"
        self._per_hour = per_hour
        self.wall = time.time
        self._last = 0.0

    def take(self, wanted: int) -> int:
        """Note up to so many that will be created now, and return how many may be. Raises ClusterError, also
        if another extender has noted some meanwhile."""
        found = self._transport.json(self._path, timeout_s=_CALL_S)
        now = self.wall()
        # The clock of another extender may be ahead; times further away come from a clock that was wrong.
        recent = [at for at in _times(found) if abs(now - at) < _HOUR_S]
        allowed = max(0, min(wanted, self._per_hour - len(recent)))
        if not allowed:
            return 0
        self._last = round(now, 3)
        self._write(found, [*recent, *[self._last] * allowed])
        return allowed

    def release(self, unused: int) -> None:
        """So many of the last ones were not created, and will not be. Raises ClusterError."""
        found = self._transport.json(self._path, timeout_s=_CALL_S)
        times = _times(found)
        for _ in range(min(unused, times.count(self._last))):
            times.remove(self._last)
        self._write(found, times)

    def _write(self, found: dict[str, Any], times: list[float]) -> None:
        """Note these times, if the ConfigMap is still as it was found."""
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "data": {_KEY: json.dumps(times)}}
        self._transport.send("PATCH", self._path, patch, MERGE, timeout_s=_CALL_S)


def _times(found: dict[str, Any]) -> list[float]:
    """The noted times. Raises ClusterError for another text."""
    text = (found.get("data") or {}).get(_KEY) or "[]"
    try:
        times = json.loads(text)
        return [float(at) for at in times]
    except (ValueError, TypeError):
        raise ClusterError(f"ConfigMap {NAME}: data.{_KEY} is no list of times; remove the key") from None
