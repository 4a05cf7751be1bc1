"""The counter of a part that may be off: a scrape shows its zeros in any case."""

from scheduler_ext.counters import Counter

RECLAIMS = Counter(
    "gpu_extender_reclaims",
    "Idle pods that opted in, by the last step of reclaim: dry_run (would be warned), warned, cancelled "
    "(the warning ended), evicted, budget (a try that a PodDisruptionBudget refused), limited (waits, "
    "because perHour pods were evicted within an hour), failed (the API server refused or did not "
    "answer).",
    ("result",),
    ("dry_run", "warned", "cancelled", "evicted", "budget", "limited", "failed"),
)
