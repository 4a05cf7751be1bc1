"""Whether an idle pod is warned, evicted or left alone. Times are in seconds of one wall clock."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

RECLAIM_LABEL = "gpu.scheduler-ext.io/reclaim"
# The clocks of two API servers may differ by this.
_CLOCKS_S = 60.0

Step: TypeAlias = Literal["warn", "wait", "evict", "cancel", "none"]


@dataclass(frozen=True, slots=True)
class ReclaimPolicy:
    """A pod is warned at the earliest `min_age_s` after it began to run, and evicted at the earliest
    `warn_for_s` after the warning."""

    min_age_s: float
    warn_for_s: float


def opted_in(of_namespace: str | None, of_pod: str | None) -> bool:
    """Whether reclaim may evict a pod, by the label of its namespace and its own. A namespace that says
    "false" is never touched; otherwise the pod's label comes first."""
    if of_namespace == "false":
        return False
    return (of_namespace if of_pod is None else of_pod) == "true"


def next_step(
    policy: ReclaimPolicy,
    *,
    idle_since: float | None,
    ran_s: float,
    evict_at: float | None,
    report_age_s: float,
    now: float,
) -> Step:
    """The next step for a pod of a node with a fresh report, which is `report_age_s` old. `idle_since` is
    None for a pod that is not idle, or may not be reclaimed. `evict_at` is the time in its warning; None
    without one, NaN for a text that is no time. A pod is evicted only if a report after the warning still
    shows it idle, and it did not compute since."""
    if not (idle_since is not None and ran_s >= policy.min_age_s):
        return "none" if evict_at is None else "cancel"
    # A time that lies further ahead is that of another configuration.
    if evict_at is None or math.isnan(evict_at) or evict_at > now + policy.warn_for_s + _CLOCKS_S:
        return "warn"
    warned_at = evict_at - policy.warn_for_s
    # A warning from before the last work was left over.
    if warned_at < idle_since - _CLOCKS_S:
        return "warn"
    return "evict" if now >= evict_at and now - report_age_s > warned_at else "wait"
