"""The counters of parts that may be off, or follow a cluster: a scrape shows them in any case."""

from scheduler_ext.counters import Counter

TAINT_WRITES = Counter(
    "gpu_extender_device_taint_writes",
    "DeviceTaintRules for sick and cordoned GPUs that were created or deleted, and writes that failed.",
    ("result",),
    ("created", "deleted", "failed"),
)
