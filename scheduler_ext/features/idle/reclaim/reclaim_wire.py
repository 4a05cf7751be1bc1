"""Bodies of requests about reclaim: the warning on a pod, and the record of evictions."""

import json
from typing import Any

from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.pod_facts import RECLAIM_AT_ANNOTATION
from scheduler_ext.wire.times import seconds, time_text

RECORD_ANNOTATION = "gpu.scheduler-ext.io/reclaimed"


def warning_patch(uid: str, version: str, evict_at: float | None) -> dict[str, Any]:
    """The merge patch that sets the time of an eviction on a pod, or removes it (None), if the pod is still
    at this version."""
    at = time_text(evict_at) if evict_at is not None else None
    metadata = {"uid": uid, "resourceVersion": version, "annotations": {RECLAIM_AT_ANNOTATION: at}}
    return {"metadata": metadata}


def recorded_evictions(lease: dict[str, Any]) -> dict[str, float]:
    """The times of evictions in a Lease, by the uid of the pod. Raises ClusterError for an unreadable
    annotation: without it, nothing limits the evictions."""
    metadata = lease.get("metadata") or {}
    text = (metadata.get("annotations") or {}).get(RECORD_ANNOTATION) or "{}"
    try:
        found = {str(uid): seconds(at) for uid, at in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        found = {"": None}
    times = {uid: at for uid, at in found.items() if at is not None}
    if len(times) < len(found):
        raise ClusterError(
            f"Lease {metadata.get('name')}: annotation {RECORD_ANNOTATION} is unreadable; remove it"
        )
    return times


def with_evictions(lease: dict[str, Any], times: dict[str, float]) -> dict[str, Any]:
    """The Lease with these evictions instead."""
    metadata = lease.get("metadata") or {}
    text = json.dumps({uid: time_text(at) for uid, at in sorted(times.items())})
    annotations = (metadata.get("annotations") or {}) | {RECORD_ANNOTATION: text}
    return lease | {"metadata": metadata | {"annotations": annotations}}
