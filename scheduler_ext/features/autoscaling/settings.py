"""The settings of placeholders."""

from typing import Annotated, ClassVar

from msgspec import Meta, field

from scheduler_ext.wire.config import Duration, Section

NamespaceName = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]


class PlaceholdersSection(Section):
    key = "autoscaler.placeholders"
    bounds: ClassVar = {"after": (0, 86400), "ttl": (10, 86400)}
    enabled: bool = False
    namespace: NamespaceName = "gpu-scheduler-placeholders"
    after: Duration = "30s"
    ttl: Duration = "15m"
    most: Annotated[int, Meta(ge=1, le=50)] = 5
    per_hour: Annotated[int, Meta(ge=1, le=1000)] = 20


class AutoscalerSection(Section):
    key = "autoscaler"
    placeholders: PlaceholdersSection = field(default_factory=PlaceholdersSection)


SECTIONS = (AutoscalerSection,)
