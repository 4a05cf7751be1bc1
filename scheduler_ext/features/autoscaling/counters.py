"""The counters of parts that may be off, or follow a cluster: a scrape shows them in any case."""

from scheduler_ext.counters import Counter

PLACEHOLDERS = Counter(
    "gpu_extender_placeholders",
    "Placeholders for an autoscaler: created; removed, because their pod has a node or is gone; expired "
    "at their deadline; and tries that the hourly budget (over-budget), the API server (refused) or a "
    "failure (failed) ended, each repeated at growing intervals up to 30 s.",
    ("result",),
    ("created", "removed", "expired", "over-budget", "refused", "failed"),
)
STARTUP_TAINTS = Counter(
    "gpu_extender_startup_taints",
    "Startup taints that the extender removed from nodes whose GPUs are known, and tries that the API "
    "server refused or did not answer (failed); each is repeated at growing intervals up to 30 s.",
    ("result",),
    ("removed", "refused", "failed"),
)
