"""What claims do in `serve`: where it is enabled, DeviceTaintRules say which GPUs are sick or cordoned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler_ext.cluster.following import Following, Live
from scheduler_ext.features.claims import counters as counters  # They show in any case.
from scheduler_ext.features.claims.settings import DraSection
from scheduler_ext.server.serving import Serving
from scheduler_ext.sources.source_status import Problem
from scheduler_ext.wire.config import Configuration

if TYPE_CHECKING:
    from scheduler_ext.features.claims.taint_writer import TaintWriter


class ClaimsServing(Serving):
    """Writes rules."""

    def __init__(self) -> None:
        self._writer: TaintWriter | None = None

    def follow(self, live: Live) -> Following:
        from scheduler_ext.features.claims.taint_writer import TaintWriter

        self._writer = TaintWriter(
            live.transport, live.locked, live.active, lambda: live.rules_path, lambda: live.snapshot
        )
        return Following(loops=(self._writer,))

    def problems(self) -> Sequence[Problem]:
        problem = self._writer.problem if self._writer is not None else None
        return () if problem is None else (Problem("DeviceTaintRules", problem, 0.0),)


def serving(config: Configuration) -> Serving | None:
    """None unless rules are to be written."""
    return ClaimsServing() if config.of(DraSection).device_taints else None
