"""The counters of parts that may be off, or follow a cluster: a scrape shows them in any case."""

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
OUT_OF_MEMORY = Counter(
    "gpu_extender_gpu_out_of_memory",
    "Containers with GPUs that ended because they got no more GPU memory, by their termination message. "
    "Beyond 1,000 namespaces, further ones are combined as _others.",
    ("namespace",),
)
