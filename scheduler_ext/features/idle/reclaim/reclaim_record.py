"""The record of evictions, which limits their number in an hour: an annotation of a Lease. It survives a
restart of the extender, and of two extenders that write it at once, the API server refuses one."""

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from scheduler_ext.cluster.client.transport import JSON, RefusedError, Transport
from scheduler_ext.features.idle.reclaim.reclaim_wire import recorded_evictions, with_evictions
from scheduler_ext.wire.kube import LeaseSpec, new_lease

NAME = "gpu-scheduler-reclaim"
_HOUR_S = 3600.0
_CALL_S = 5.0


class ReclaimRecord:
    """At most `per_hour` pods within an hour; `namespace` is that of the Lease. All calls raise ClusterError,
    a RefusedError of status 409 if another extender wrote the record meanwhile."""

    def __init__(self, transport: Transport, namespace: str, per_hour: int) -> None:
        self._transport = transport
        self._namespace = namespace
        self._per_hour = per_hour
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace)}/leases"

    def take(self, uid: str, now: float) -> bool:
        """Record the eviction of a pod before it happens, at the server's time; False if there were as many
        already. A pod that is recorded already is not counted again."""
        lease = self._read()
        times = self._recent(lease, now)
        if uid in times:
            return True
        if len(times) >= self._per_hour:
            return False
        self._write(lease, times | {uid: now})
        return True

    def release(self, uid: str, now: float) -> None:
        """The eviction of a pod did not happen, and will not."""
        lease = self._read()
        times = self._recent(lease, now)
        if times.pop(uid, None) is not None:
            self._write(lease, times)

    def _recent(self, lease: dict[str, Any] | None, now: float) -> dict[str, float]:
        found = recorded_evictions(lease) if lease is not None else {}
        # Times further ahead come from a clock that was wrong, and would count for as long.
        return {uid: at for uid, at in found.items() if abs(now - at) < _HOUR_S}

    def _read(self) -> dict[str, Any] | None:
        try:
            return self._transport.json(f"{self._leases}/{NAME}", timeout_s=_CALL_S)
        except RefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _write(self, lease: dict[str, Any] | None, times: dict[str, float]) -> None:
        """Replace the Lease if it is still the one that was read."""
        if lease is None:
            body = with_evictions(new_lease(self._namespace, NAME, LeaseSpec()), times)
            self._transport.send("POST", self._leases, body, JSON, timeout_s=_CALL_S)
        else:
            body = with_evictions(lease, times)
            self._transport.send("PUT", f"{self._leases}/{NAME}", body, JSON, timeout_s=_CALL_S)
