"""Times at which an operator repaired GPUs, from an annotation of the GPUNode."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache

from scheduler_ext.wire.times import seconds

log = logging.getLogger(__name__)

REPAIRED_ANNOTATION = "gpu.scheduler-ext.io/repaired"
"""Set on a GPUNode by an operator: UUID@TIME, several separated by commas."""

# Allowance for clock differences. A time further in the future would also end errors that have not happened
# yet.
_AHEAD_S = 60.0


def repairs(annotation: str | None, wall: float) -> Mapping[str, float]:
    """When each GPU was repaired, by UUID, in seconds since 1970; an unreadable part is logged."""
    found = {}
    for part in (annotation or "").split(","):
        uuid, _, time = part.strip().rpartition("@")
        at = seconds(time)
        if uuid and at is not None and at <= wall + _AHEAD_S:
            found[uuid] = at
        elif part.strip():
            _say_once(part.strip(), future=at is not None and bool(uuid))
    return found


@lru_cache(maxsize=64)
def _say_once(part: str, *, future: bool) -> None:
    """Log once per part: the annotation is read every few seconds."""
    problem = "is in the future of this node's clock" if future else "is not UUID@TIME"
    log.error(
        "annotation %s: %r %s, and changes nothing; write it like GPU-1@2026-11-21T07:13:08Z",
        REPAIRED_ANNOTATION,
        part,
        problem,
    )
