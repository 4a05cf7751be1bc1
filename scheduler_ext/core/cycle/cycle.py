"""The scheduling cycle: filter_nodes, score_nodes, select_candidates. Totals depend only on the request, the
snapshot and the policy, so filter, prioritize and explain agree by construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.cycle.policy import SchedulingPolicy, priority_level
from scheduler_ext.core.cycle.share_cost import share_cost
from scheduler_ext.core.cycle.weights import utilization_level, weights_at
from scheduler_ext.core.filters import FILTERS, REASONS
from scheduler_ext.core.filters.fresh import unknown_values
from scheduler_ext.core.framework.allocate import MAX_SEARCH_STEPS, ShareFit
from scheduler_ext.core.framework.criterion import Filter, Score, Scoring, View
from scheduler_ext.core.framework.refusal import INVALID_REQUEST, NearestMiss
from scheduler_ext.core.node.columns import Bools, Floats, Ints
from scheduler_ext.core.node.lazy import lazy
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.scores import SCORES
from scheduler_ext.core.scores.preferences import Reported, WholeBeforeSlice
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot

FITS = 0
BEST_POINTS = 10
# The weight of a term that decides whatever the others say, relative to all before it.
DECISIVE = 1.1
# Totals closer than this are equal, because smaller differences come from rounding.
TOTAL_DECIMALS = 9
# Weighted sums that differ by less mean nothing to users, so kube-scheduler's own scores decide. One idle GPU
# of a node (score `tightness`) is above it.
RESOLUTION = 0.0015
_CODE = {reason: code for code, reason in enumerate(REASONS, start=1)}

# Of these, the later decides first.
DECISIVE_SCORES: tuple[Score, ...] = (WholeBeforeSlice(), Reported())

Codes = npt.NDArray[np.uint8]


class Scored(NamedTuple):
    """The value of every state to one request: the applied scores, and their weighted sum."""

    terms: list[tuple[Score, float, Floats]]
    """(score, its part of the total, its values `[state]`); the parts sum to 1."""
    totals: Floats
    """`[state]`, 0 to 1; -inf where the request does not fit."""
    resolution: float
    """Totals that differ by less are equally good: RESOLUTION over the sum of the weights that apply."""


@dataclass(eq=False)
class Decision:
    """One request on one snapshot: the verdict on every node state, FITS or 1 plus the place of the reason in
    REASONS, and scores computed on first use. `view` is what the filters left."""

    request: GpuRequest | InvalidRequest
    snapshot: Snapshot
    policy: SchedulingPolicy
    verdict: Codes
    view: View | None

    @property
    def steps(self) -> list[int]:
        """The search steps that are left for placing shares."""
        return (self.view.steps if self.view is not None else None) or [0]

    @property
    def exhausted(self) -> bool:
        """Whether some states may be refused only because placing shares used up its steps."""
        return not isinstance(self.request, InvalidRequest) and self.steps[0] <= 0

    @property
    def fits(self) -> Bools:
        fits: Bools = self.verdict == FITS
        return fits

    @property
    def share_room_mib(self) -> Ints:
        assert self.view is not None
        return self.view.share_room_mib()

    def nearest_miss(self, name: str) -> NearestMiss | None:
        """The nearest miss of the first filter that refuses a node; None for a fit or an invalid request."""
        if isinstance(self.request, InvalidRequest):
            return None
        node = self.snapshot.nodes[name]
        if self.exhausted:
            # Judge the node alone, with all search steps for it.
            return nearest_miss(self.request, node)
        return _closest(self._stages, node, self.snapshot.state_at(name))

    @lazy
    def obstacles(self) -> Ints:
        """The number of filters that refuse each state, `[state]`, also after an earlier refusal. A value
        that only a report shows is one obstacle, the missing report."""
        refused = np.zeros(len(self.verdict), np.int32)
        stages = self._stages if isinstance(self.request, GpuRequest) else []
        unknown = unknown_values(stages[0][1]) if stages else {}
        for criterion, _, passed in stages:
            refused += ~(passed | unknown.get(criterion.name, False))
        return refused

    @lazy
    def _stages(self) -> _Stages:
        """Each filter's view and result, computed on demand because most decisions never need them."""
        assert isinstance(self.request, GpuRequest)
        return _stages(self.request, self.snapshot)

    @lazy
    def weights(self) -> Mapping[str, float]:
        """The weight of each score in a cluster like this one, by name."""
        snapshot = self.snapshot
        full = utilization_level(snapshot.idle_part, snapshot.small_cluster)
        # In a cluster that is not full the shortage has no bearing, and is not computed.
        cpu_shortage = snapshot.cpu_shortage if full else 0.0
        return weights_at(self.policy.weights, full, snapshot.small_cluster, cpu_shortage)

    @lazy
    def scoring(self) -> Scoring:
        assert isinstance(self.request, GpuRequest)
        assert self.view is not None
        request = self.request
        strategy = request.strategy or self.policy.strategy
        fit = None
        if request.shares is not None:
            cost = share_cost(request, self.snapshot, strategy, self.weights, self.policy.values)
            fit = ShareFit(self.view.share_room_mib(), request.shares).place(self.fits, cost)
        level = priority_level(request.priority, self.policy.high_priority)
        return Scoring(request, self.snapshot, self.view.units, fit, strategy, level, self.policy.values)

    @lazy
    def scored(self) -> Scored:
        """The scores, kept because prioritize follows filter for the same pod."""
        return score_nodes(self)

    @property
    def totals(self) -> Floats:
        return self.scored.totals


def filter_nodes(
    request: GpuRequest | InvalidRequest,
    snapshot: Snapshot,
    policy: SchedulingPolicy,
    steps: list[int] | None = None,
) -> Decision:
    """Run all filters in their order; each state keeps the reason of the first filter that refuses it.
    `steps` limit what several decisions together spend on placing shares (as for ShareFit)."""
    verdict: Codes = np.full(len(snapshot.states), FITS, np.uint8)
    if isinstance(request, InvalidRequest):
        verdict[:] = _CODE[INVALID_REQUEST]
        return Decision(request, snapshot, policy, verdict, None)
    view = View(request, snapshot, [MAX_SEARCH_STEPS] if steps is None else steps)
    for criterion in FILTERS:
        if criterion.applies(request):
            passed = criterion.passes(view)
            if not passed.all():
                verdict[~passed & (verdict == FITS)] = _CODE[criterion.reason]
    return Decision(request, snapshot, policy, verdict, view)


def short_by_count(request: GpuRequest, snapshot: Snapshot) -> Bools:
    """The states that kube-scheduler refuses by its own counts, and does not ask about, `[state]`. It counts
    allocatable less requests, and the devices that are left for claims."""
    short = np.zeros(len(snapshot.states), np.bool_)
    for ask in request.units:
        columns = snapshot.units.get(ask.resource) or snapshot.no_units
        left = np.where(columns.by_claim, columns.available, columns.limit)
        # Without a unit in the state, the limit is unknown: its allocatable is most likely without it, too.
        short |= ((left < max(ask.count, 1)) | ~columns.offered_anywhere) & ~columns.open
    if request.shares is not None:
        short |= snapshot.node.share_limit < request.shares.total_mib
    return short


def score_nodes(decision: Decision) -> Scored:
    """Every applied score and the weighted total of each node state that fits."""
    total = np.zeros(len(decision.verdict))
    if not isinstance(decision.request, GpuRequest):
        return Scored([], np.where(decision.fits, total, -np.inf), 0.0)
    weights, scoring = decision.weights, decision.scoring
    applied = [score for score in SCORES if weights.get(score.name, 0.0) > 0.0 and score.applies(scoring)]
    terms = [(score, weights[score.name], score.value(scoring)) for score in applied]
    # Whatever the weights: whole GPUs before slices, and reported nodes before those known by labels only.
    for score in DECISIVE_SCORES:
        if scoring.request.asks_gpu and score.applies(scoring):
            others = sum(weight for _, weight, _ in terms) or 1.0
            terms.append((score, others * DECISIVE, score.value(scoring)))
    whole = sum(weight for _, weight, _ in terms) or 1.0
    terms = [(score, weight / whole, value) for score, weight, value in terms]
    for _, weight, value in terms:
        total += weight * value
    totals = np.where(decision.fits, np.round(total, TOTAL_DECIMALS), -np.inf)
    return Scored(terms, totals, RESOLUTION / whole)


def select_candidates(decision: Decision, rows: Ints, limit: int, *, best_only: bool = False) -> Bools:
    """Which of the nodes at `rows` to return to kube-scheduler, `[row]`: the `limit` best that fit (0:
    all that fit), by total; names break a tie for the last places. With `best_only`, of these only the nodes
    that get the most points. All that fit are returned for a pod that requests no GPU, and for a pod with
    soft preferences, so that kube-scheduler can apply these to all."""
    state = decision.snapshot.state_of[rows]
    fits = decision.fits[state]
    request = decision.request
    if not isinstance(request, GpuRequest) or not request.asks_gpu or request.soft_preferences:
        return fits
    count = int(np.count_nonzero(fits))
    if best_only and count > 1:
        fits = fits & (_below(decision.totals[state], decision.scored.resolution) == 0)
        count = int(np.count_nonzero(fits))
    if not limit or count <= limit:
        return fits
    totals = decision.totals[state]
    edge = np.partition(totals, len(totals) - limit)[len(totals) - limit]
    chosen: Bools = totals > edge
    equal = np.flatnonzero(totals == edge)
    wanted = limit - int(np.count_nonzero(chosen))
    if wanted < len(equal):
        order = np.argpartition(decision.snapshot.name_rank[rows[equal]], wanted - 1)
        equal = equal[order[:wanted]]
    chosen[equal] = True
    return chosen


def _below(totals: Floats, resolution: float) -> Floats:
    """How far totals are below the best one, in whole steps of the resolution, if there is one; infinite for
    a node that does not fit."""
    best = totals.max(initial=-np.inf)
    if best == -np.inf:
        return np.full(len(totals), np.inf)
    below: Floats = best - totals
    return np.floor(below / resolution) if resolution > 0.0 else below


def points(totals: Floats, resolution: float = 0.0) -> npt.NDArray[np.int64]:
    """Totals as kube-scheduler's 0 to 10, by their order in steps of the resolution below the best: a node
    that is far better or worse than all others takes no points from these. Only totals within the first step
    get 10; equal totals get equal points, never in inverted order. kube-scheduler's own scores decide among
    equal points, then chance."""
    below = _below(totals, resolution)
    ordered = np.sort(below)
    ordered = ordered[: ordered.searchsorted(np.inf)]
    # Each step but the worst.
    steps = ordered[:-1][ordered[1:] != ordered[:-1]]
    if not len(steps):
        return np.where(below < np.inf, BEST_POINTS, 0)
    # Totals that do not fit get 0, as the worst do.
    mapped: npt.NDArray[np.int64] = (len(steps) - steps.searchsorted(below)) * BEST_POINTS // len(steps)
    return mapped


def nearest_miss(request: GpuRequest, node: Node) -> NearestMiss | None:
    """The nearest miss of the first filter that refuses a node; None if the node fits."""
    alone = build_snapshot({node.info.name: node}, 0)
    return _closest(_stages(request, alone), node, int(alone.state_of[0]))


# Filters in their order: the view before each, and the states that passed it.
_Stages = list[tuple[Filter, View, Bools]]


def _stages(request: GpuRequest, snapshot: Snapshot) -> _Stages:
    view, stages = View(request, snapshot), []
    for criterion in FILTERS:
        if criterion.applies(request):
            before = view.copy()
            stages.append((criterion, before, criterion.passes(view)))
    return stages


def _closest(stages: _Stages, node: Node, state: int) -> NearestMiss | None:
    for criterion, before, passed in stages:
        if not passed[state]:
            return criterion.miss(before.at(state), node)
    return None
