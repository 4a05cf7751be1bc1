"""The counters of parts that may be off: a scrape shows their zeros in any case."""

from scheduler_ext.counters import Counter
from scheduler_ext.features.gangs.planning.outcomes import Outcome

NOMINATIONS = Counter(
    "gpu_extender_nominations",
    "Nominations of the planner for pods of no gang, by what became of them: bound where planned, bound "
    "elsewhere, misfit (refused on the planned node), expired (not tried in time), conflict (another "
    "component had nominated the pod), failed (not written), withdrawn (for a gang of higher priority), "
    "deleted.",
    ("outcome",),
    [outcome.value for outcome in Outcome],
)
GATES_LIFTED = Counter("gpu_extender_gang_gates_lifted", "Scheduling gates removed from pods of gangs.")
EVICTIONS = Counter(
    "gpu_extender_gang_evictions",
    "Evictions for gangs: victim (so that a gang of higher priority starts), overdue (a member of a "
    "gang that did not start in time), refused (a budget kept one pod of a set, so none was "
    "evicted).",
    ("result",),
    ("victim", "overdue", "refused"),
)
