"""How long places are kept for a gang that does not fit, and how many: GPUs that are kept for a start at an
unknown time are lost to all other pods."""

from dataclasses import dataclass

# The longest pause between two times for which places are kept.
LONGEST_PAUSE_S = 86_400.0


@dataclass(frozen=True, slots=True)
class KeepingBounds:
    """Places that are free at a time that is not known are kept for at most `longest_s` (seconds). Of the
    GPUs that a gang could use, those that it waits for longer, or for a time that is not known, are at most
    the part `share` (0 to 1)."""

    longest_s: float = 3600.0
    share: float = 0.5


@dataclass(frozen=True, slots=True)
class Keeping:
    """Since when places are kept for a gang; after so many `failures`, they are kept again at `again_at`
    (None: they are kept now). Times are in seconds."""

    since: float
    failures: int = 0
    again_at: float | None = None

    @property
    def is_paused(self) -> bool:
        return self.again_at is not None

    def at(self, now: float, starts_at: float | None, bounds: KeepingBounds) -> "Keeping":
        """The same at a later time, for a gang that would then start at a time (None: not known). Each pause
        is twice as long as the one before, the first as long as places were kept."""
        if self.again_at is not None:
            return self if now < self.again_at else Keeping(now, self.failures)
        if starts_at is not None or now < self.since + bounds.longest_s:
            return self
        pause_s = bounds.longest_s * 2.0 ** min(self.failures, 30)
        return Keeping(self.since, self.failures + 1, now + min(pause_s, LONGEST_PAUSE_S))
