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

    def take(self, wanted: int) -> int:
        """Note up to so many that will be created now, and return how many may be. Raises ClusterError, also
        if another extender has noted some meanwhile."""
        found = self._transport.json(self._path, timeout_s=_CALL_S)
        now = self.wall()
        # The clock of another extender may be ahead; what is further away is of a clock that was wrong.
        recent = [at for at in _times(found) if abs(now - at) < _HOUR_S]
        allowed = max(0, min(wanted, self._per_hour - len(recent)))
        if not allowed:
            return 0
        noted = json.dumps([*recent, *[round(now, 3)] * allowed])
        patch = {
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "data": {_KEY: noted},
        }
        self._transport.send("PATCH", self._path, patch, MERGE, timeout_s=_CALL_S)
        return allowed


def _times(found: dict[str, Any]) -> list[float]:
    """The noted times. Raises ClusterError for another text."""
    text = (found.get("data") or {}).get(_KEY) or "[]"
    try:
        times = json.loads(text)
        return [float(at) for at in times]
    except (ValueError, TypeError):
        raise ClusterError(f"ConfigMap {NAME}: data.{_KEY} is no list of times; remove the key") from None
