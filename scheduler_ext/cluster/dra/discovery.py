"""Discovery of `resource.k8s.io`: one call where a cluster does not serve it."""

from collections.abc import Mapping

from scheduler_ext.cluster.client.transport import RefusedError, Transport
from scheduler_ext.wire.dra.resource_api import (
    CLAIMS,
    CLASSES,
    GROUP,
    RULE_VERSIONS,
    RULES,
    SLICES,
    read_resources,
)

_ROOT = f"/apis/{GROUP}"


def discovered(transport: Transport) -> Mapping[str, str]:
    """The paths of the lists that a cluster has, by resource; empty where Dynamic Resource Allocation is not
    served in v1. Raises ClusterError."""
    served = _resources(transport, "v1")
    if not {CLASSES, SLICES, CLAIMS} <= served:
        return {}
    paths = {name: f"{_ROOT}/v1/{name}" for name in (CLASSES, SLICES, CLAIMS)}
    for version in RULE_VERSIONS:
        if RULES in (served if version == "v1" else _resources(transport, version)):
            return {**paths, RULES: f"{_ROOT}/{version}/{RULES}"}
    return paths


def _resources(transport: Transport, version: str) -> set[str]:
    try:
        return read_resources(transport.get(f"{_ROOT}/{version}").body)
    except RefusedError as error:
        if error.status == 404:
            return set()
        raise
