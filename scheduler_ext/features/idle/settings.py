"""The settings of reclaim. The kernel has the time after which a pod is idle."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from scheduler_ext.wire.config import Duration, Section

_WEEK_S = 7 * 86400


class ReclaimSection(Section):
    key = "idle.reclaim"
    bounds: ClassVar = {"min_age": (1, _WEEK_S), "warn_for": (1, _WEEK_S)}
    mode: Literal["off", "dry-run", "evict"] = "off"
    min_age: Duration = "1h"
    warn_for: Duration = "15m"
    per_hour: Annotated[int, Meta(ge=1, le=60)] = 4


SECTIONS = (ReclaimSection,)
