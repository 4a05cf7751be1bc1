"""Whether an idle pod is warned, evicted or left alone. Times are in seconds of one wall clock."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

RECLAIM_LABEL = "gpu.scheduler-ext.io/reclaim"
# The clocks of two API servers may differ by this.
_CLOCKS_S = 60.0
# Two times that API servers wrote are in order if they are further apart: they cut them to whole seconds.
_SURELY_S = _CLOCKS_S + 2.0

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
    known_at: float | None,
    report_age_s: float,
    now: float,
) -> Step:
    """The next step for a pod of a node with a fresh report, which is `report_age_s` old. `idle_since` is
    None for a pod that is not idle, or may not be reclaimed. `evict_at` is the time in its warning; None
    without one, NaN for a text that is no time. `known_at` is when this extender knew of that warning; None
    if it has not taken note of it. The text does not prove when the pod was warned: it is cut to seconds,
    and the configuration or the text may have changed. A pod is evicted only if it did not compute since the
    warning, and a report that is surely newer than this knowledge still shows it idle."""
    if not (idle_since is not None and ran_s >= policy.min_age_s):
        return "none" if evict_at is None else "cancel"
    # A time that lies further ahead is that of another configuration.
    if evict_at is None or math.isnan(evict_at) or evict_at > now + policy.warn_for_s + _CLOCKS_S:
        return "warn"
    warned_at = evict_at - policy.warn_for_s
    # A warning from before the last work was left over.
    if warned_at < idle_since - _CLOCKS_S:
        return "warn"
    if known_at is None or now < evict_at:
        return "wait"
    return "evict" if now - report_age_s > known_at + _SURELY_S else "wait"
