"""The counter of a part that may be off: a scrape shows its zeros in any case."""

from scheduler_ext.counters import Counter

TAINT_WRITES = Counter(
    "gpu_extender_device_taint_writes",
    "DeviceTaintRules for sick and cordoned GPUs that were created or deleted, and writes that failed.",
    ("result",),
    ("created", "deleted", "failed"),
)
