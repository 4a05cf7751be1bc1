"""Why the best node is the best, in a word of a closed set."""

import numpy as np

from scheduler_ext.core.cycle.cycle import DECISIVE_SCORES, Decision
from scheduler_ext.core.request.request import GpuRequest

ONLY = "only one that fits"
EQUAL = "all equal"
PACKS = "packs"
# By the preferred node affinity of the pod, which comes before all scores.
PREFERRED = "preferred by the pod"
# The word of each score; the others of the strategy `fragmentation` pack.
_WORDS = {
    "reported": "has a report",
    "whole-before-slice": "not shared",
    "model-preference": "wanted model",
    "value": "cheapest that fits",
    "model-scarcity": "spares scarce models",
    "health": "healthy",
    "priority": "reliable",
}
_SPOT, _ON_DEMAND = "spot", "on-demand"
_BEST_FIT = {"spread": "spreads"}
WORDS = (ONLY, EQUAL, PACKS, PREFERRED, *_WORDS.values(), _SPOT, _ON_DEMAND, *_BEST_FIT.values())


def because(decision: Decision, name: str, others: list[str]) -> str | None:
    """The word for the best node `name` beside the `others` that fit: of the terms without which another node
    would be better (of all terms if there is none), that in which it leads the others most, on average. None
    for a pod without GPUs, and for an unreadable one."""
    request = decision.request
    if not isinstance(request, GpuRequest) or not request.asks_gpu:
        return None
    if not others:
        return ONLY
    snapshot = decision.snapshot
    best, rest = snapshot.state_at(name), snapshot.state_of[snapshot.rows(others)]
    terms, totals, resolution = decision.scored.terms, decision.totals, decision.scored.resolution
    # Nodes with equal points are no alternative that needs a reason.
    rest = rest[totals[rest] <= totals[best] - resolution]
    if not len(rest):
        return EQUAL
    # A term that decides regardless of the others separates classes of nodes: compare within the best one.
    for score, _, value in reversed([term for term in terms if term[0] in DECISIVE_SCORES]):
        alike = rest[value[rest] == value[best]]
        if not len(alike):
            return _WORDS[score.name]
        rest = alike
    cheapest = all(value[best] >= value[rest].max() for score, _, value in terms if score.name == "value")
    deciding, most = "", (False, 0.0)
    for score, weight, value in terms:
        without = totals - weight * value
        needed = bool(without[rest].max() > without[best])
        lead = needed, weight * float(np.mean(value[best] - value[rest]))
        if lead > most and (cheapest or score.name != "value"):
            deciding, most = score.name, lead
    if deciding == "spot":
        return _SPOT if snapshot.node.spot[best] else _ON_DEMAND
    if deciding == "best-fit":
        return _BEST_FIT.get(decision.scoring.strategy, PACKS)
    return _WORDS.get(deciding, PACKS)
