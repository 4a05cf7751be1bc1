"""The counters of parts that may be off: a scrape shows their zeros in any case."""

from scheduler_ext.counters import Counter

PLACEHOLDERS = Counter(
    "gpu_extender_placeholders",
    "Placeholders for an autoscaler: created; removed, because their pod has a node or is gone; expired "
    "at their deadline; and tries that the hourly budget (over-budget), the API server (refused) or a "
    "failure (failed) ended, each repeated at growing intervals up to 30 s.",
    ("result",),
    ("created", "removed", "expired", "over-budget", "refused", "failed"),
)
