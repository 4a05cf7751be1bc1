"""DeviceClasses."""

from __future__ import annotations

from scheduler_ext.core.dra.published import DeviceClass
from scheduler_ext.wire import kube
from scheduler_ext.wire.dra.resource_api import SelectorObject, expressions
from scheduler_ext.wire.kube import KubeStruct
from scheduler_ext.wire.times import seconds


class _DeviceClassSpec(KubeStruct):
    selectors: list[SelectorObject] | None = None
    extended_resource_name: str | None = None


class ClassObject(KubeStruct):
    metadata: kube.ObjectMeta | None = None
    spec: _DeviceClassSpec | None = None


def read_class(item: ClassObject) -> DeviceClass:
    """A DeviceClass."""
    metadata, spec = item.metadata or kube.ObjectMeta(), item.spec or _DeviceClassSpec()
    return DeviceClass(
        name=metadata.name or "",
        expressions=expressions(spec.selectors),
        extended_resource=spec.extended_resource_name or None,
        created_at=seconds(metadata.creation_timestamp) or 0.0,
    )
