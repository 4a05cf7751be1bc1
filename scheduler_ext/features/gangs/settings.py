"""The settings of nominations, gangs and the queue."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from scheduler_ext.core.errors import ConfigError
from scheduler_ext.wire.config import Configuration, Duration, Section
from scheduler_ext.wire.planned_annotation import LONGEST_PLAN_S


class GangsSection(Section):
    key = "nominate.gangs"
    bounds: ClassVar = {"deadline": (10, 86400), "keep_for": (60, 86400)}
    enabled: bool = False
    deadline: Duration = "5m"
    on_deadline: Literal["evict", "hold"] = "evict"
    preempts: bool = False
    keep_for: Duration = "1h"
    keep_percent: Annotated[int, Meta(ge=0, le=100)] = 50


class NominateSection(Section):
    key = "nominate"
    bounds: ClassVar = {"ttl": (5, LONGEST_PLAN_S)}
    enabled: bool = True
    ttl: Duration = "30s"
    gangs: GangsSection = field(default_factory=GangsSection)

    def check(self, config: Configuration) -> None:
        if self.gangs.enabled and not self.enabled:
            raise ConfigError("nominate.gangs.enabled: needs nominate.enabled: true")


class QueueSection(Section):
    key = "queue"
    run_times: Annotated[int, Meta(ge=0, le=100_000)] = 0


SECTIONS = (NominateSection, QueueSection)
