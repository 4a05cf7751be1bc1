"""How much GPU memory a container should ask, from the most that it was seen to use. The bounds are those of
VPA's recommender: the upper one is far above the target while little was observed."""

from typing import NamedTuple

# More than the peak, because an agent samples every few seconds and the next peak may be higher.
MARGIN = 1.15
# Recommendations are rounded up to this, because a CUDA context alone varies by more.
STEP_MIB = 256
# After a failure for lack of memory, as VPA after an eviction for it (--oom-bump-up-ratio).
AFTER_FAILURE = 1.2
# A smaller difference to the request is not worth a restart.
_WORTH = 0.1
_DAY_S = 86400.0


class MemoryBounds(NamedTuple):
    """MiB on one GPU. `lower` was already used; `target` leaves a margin; at most `upper` may be needed, with
    less certainty the shorter it was observed. `uncapped` is the target by the peak alone."""

    lower: int
    target: int
    upper: int
    uncapped: int


def rounded(mib: float) -> int:
    """Up to the next step."""
    return -int(-mib // STEP_MIB) * STEP_MIB


def bounds(peak_mib: int, observed_s: float, least_mib: float, most_mib: int | None) -> MemoryBounds:
    """By a peak in so long a time. The container ran out of memory with less than `least_mib`, 0 if it did
    not; `most_mib` is what the largest GPU has."""
    needed = rounded(peak_mib * MARGIN)
    days = max(observed_s, 60.0) / _DAY_S
    upper = rounded(peak_mib * MARGIN * (1 + 1 / days))
    lower, target = max(rounded(peak_mib), rounded(least_mib)), max(needed, rounded(least_mib), STEP_MIB)
    upper = max(upper, target)
    if most_mib is not None:
        lower, target, upper = (min(each, most_mib) for each in (lower, target, upper))
    return MemoryBounds(lower, target, upper, needed)


def is_worth(request_mib: float, target_mib: float) -> bool:
    """Whether the difference is large enough for a restart."""
    return abs(request_mib - target_mib) > _WORTH * request_mib
