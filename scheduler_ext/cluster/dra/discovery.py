"""Discovery of `resource.k8s.io`: two calls where a cluster does not serve it."""

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
    read_versions,
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


def other_versions(transport: Transport) -> str | None:
    """What to say of a cluster in which nothing was discovered, if it serves Dynamic Resource Allocation in
    other versions: Kubernetes before 1.34 had v1beta1 and v1beta2 (k8s.io/api/resource). Raises
    ClusterError."""
    body = _answer(transport, _ROOT)
    versions = [each for each in read_versions(body) if each != "v1"] if body is not None else []
    if not versions:
        return None
    return (
        f"the cluster serves {GROUP} as {' and '.join(versions)} and not as v1 (Kubernetes 1.34 or later):"
        " GPUs and claims of Dynamic Resource Allocation are not counted"
    )


def _resources(transport: Transport, version: str) -> set[str]:
    body = _answer(transport, f"{_ROOT}/{version}")
    return read_resources(body) if body is not None else set()


def _answer(transport: Transport, path: str) -> bytes | None:
    """None where the cluster does not serve the path."""
    try:
        return transport.get(path).body
    except RefusedError as error:
        if error.status == 404:
            return None
        raise
