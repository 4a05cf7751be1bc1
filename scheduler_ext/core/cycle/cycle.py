"""One decision: run the filters, score what passes, say which nodes are best.

Nothing here depends on the order of names, and totals depend only on the request, the snapshot and the
policy, so filter, prioritize and explain agree by construction.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.cycle.policy import Policy, priority_level
from scheduler_ext.core.cycle.share_cost import share_cost
from scheduler_ext.core.filters import FILTERS
from scheduler_ext.core.framework.allocate import MAX_SEARCH_STEPS, ShareFit
from scheduler_ext.core.framework.criterion import Filter, NearestMiss, Score, Scoring, View
from scheduler_ext.core.framework.reasons import INVALID_REQUEST, REASONS
from scheduler_ext.core.node.columns import Bools, Floats, Ints
from scheduler_ext.core.node.lazy import lazy
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.scores import SCORES
from scheduler_ext.core.scores.reported import Reported
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot

FITS = 0
BEST_POINTS = 10
# A pod with soft preferences of its own: totals this close to the best count as equal to it.
TOLERANCE = 0.05
# What being reported weighs against all other terms together, where some nodes are and some are not: so much
# that no estimated node comes within the tolerance of a reported one, whatever those say.
REPORTED_TO_OTHERS = (1 + 2 * TOLERANCE) / (1 - 2 * TOLERANCE)
# Totals closer than this are equal: what differs below it is rounding, not merit.
TOTAL_DECIMALS = 9
_CODE = {reason: code for code, reason in enumerate(REASONS, start=1)}

REPORTED = Reported()

Codes = npt.NDArray[np.uint8]


class Decision:
    """What one request means on one snapshot, for every node state. Totals are computed when asked for."""

    def __init__(
        self,
        request: GpuRequest | InvalidRequest,
        snapshot: Snapshot,
        policy: Policy,
        steps: list[int] | None = None,
    ) -> None:
        """``steps`` bound what several decisions together spend on placing shares (as for ShareFit)."""
        self.request = request
        self.snapshot = snapshot
        self.policy = policy
        self.verdict: Codes = np.full(len(snapshot.states), FITS, np.uint8)
        if isinstance(request, InvalidRequest):
            self.verdict[:] = _CODE[INVALID_REQUEST]
        else:
            self._steps = [MAX_SEARCH_STEPS] if steps is None else steps
            self._view = View(request, snapshot, self._steps)
            self._filter(request)

    def _filter(self, request: GpuRequest) -> None:
        for criterion in FILTERS:
            if criterion.applies(request):
                passed = criterion.passes(self._view)
                if not passed.all():
                    self.verdict[~passed & (self.verdict == FITS)] = _CODE[criterion.reason]

    @property
    def exhausted(self) -> bool:
        """Whether some states may be refused only because placing shares had used up its steps."""
        return not isinstance(self.request, InvalidRequest) and self._steps[0] <= 0

    @property
    def fits(self) -> Bools:
        """Which states fit, ``[state]``."""
        fits: Bools = self.verdict == FITS
        return fits

    @property
    def share_room_mib(self) -> Ints:
        """Room for the request's shares on each GPU, ``[slot, state]``; -1 where none may go."""
        return self._view.share_room_mib()

    def nearest_miss(self, name: str) -> NearestMiss | None:
        """What was closest on the first filter that refuses a node; None when it fits, or the pod cannot be
        read."""
        if isinstance(self.request, InvalidRequest):
            return None
        snapshot = self.snapshot
        node = snapshot.nodes[name]
        if self.exhausted:
            # With all that may be spent on placing shares spent on this node.
            return nearest_miss(self.request, node)
        return _closest(self._asked_again, node, int(snapshot.state_of[snapshot.row_of[name]]))

    @lazy
    def obstacles(self) -> Ints:
        """How many filters refuse each state, ``[state]``; filters about single devices that come after one
        that leaves none count as well."""
        refused = np.zeros(len(self.verdict), np.int32)
        for _, _, passed in self._asked_again if isinstance(self.request, GpuRequest) else ():
            refused += ~passed
        return refused

    @lazy
    def _asked_again(self) -> _Asked:
        """Filters are asked anew: what each of them saw is not kept for decisions that nobody asks about."""
        assert isinstance(self.request, GpuRequest)
        return _asked(self.request, self.snapshot)

    @lazy
    def scoring(self) -> Scoring:
        """The request with each share given its GPU."""
        assert isinstance(self.request, GpuRequest)
        view, request = self._view, self.request
        strategy = request.strategy or self.policy.strategy
        fit = None
        if request.shares is not None:
            cost = share_cost(request, self.snapshot, strategy, self.policy.weights)
            fit = ShareFit(view.share_room_mib(), request.shares, self.fits, cost)
        level = priority_level(request.priority, self.policy.high_priority)
        return Scoring(request, self.snapshot, view.units, fit, strategy, level)

    @lazy
    def terms(self) -> list[tuple[Score, float, Floats]]:
        """The scores that apply: (score, its part of the total, its values ``[state]``); parts sum to 1."""
        if isinstance(self.request, InvalidRequest):
            return []
        weights = self.policy.weights
        applied = [
            score for score in SCORES if weights.get(score.name, 0.0) > 0.0 and score.applies(self.scoring)
        ]
        terms = [(score, weights[score.name], score.value(self.scoring)) for score in applied]
        # Not a matter of weights: nodes known by labels only come after every reported one.
        if self.request.asks_gpu and REPORTED.applies(self.scoring):
            others = sum(weight for _, weight, _ in terms) or 1.0
            terms.append((REPORTED, others * REPORTED_TO_OTHERS, REPORTED.value(self.scoring)))
        whole = sum(weight for _, weight, _ in terms) or 1.0
        return [(score, weight / whole, value) for score, weight, value in terms]

    @lazy
    def totals(self) -> Floats:
        """How good each state is, ``[state]``, 0 to 1; -inf where it does not fit."""
        total = np.zeros(len(self.verdict))
        for _, weight, value in self.terms:
            total += weight * value
        return np.where(self.fits, np.round(total, TOTAL_DECIMALS), -np.inf)

    @property
    def tolerance(self) -> float:
        """How far below the best a total still counts as the best."""
        return (
            TOLERANCE
            if not isinstance(self.request, InvalidRequest) and self.request.soft_preferences
            else 0.0
        )


def nearest_miss(request: GpuRequest, node: Node) -> NearestMiss | None:
    """What was closest on the first filter that refuses a node; None when it fits."""
    alone = build_snapshot({node.info.name: node}, 0)
    return _closest(_asked(request, alone), node, int(alone.state_of[0]))


# Filters in their order: the view before each, and which states passed it.
_Asked = list[tuple[Filter, View, Bools]]


def _asked(request: GpuRequest, snapshot: Snapshot) -> _Asked:
    view, asked = View(request, snapshot), []
    for criterion in FILTERS:
        if criterion.applies(request):
            before = view.copy()
            asked.append((criterion, before, criterion.passes(view)))
    return asked


def _closest(asked: _Asked, node: Node, state: int) -> NearestMiss | None:
    for criterion, before, passed in asked:
        if not passed[state]:
            return criterion.miss(before.at(state), node)
    return None


def best_candidates(decision: Decision, rows: Ints, limit: int) -> Bools:
    """Which of the nodes at ``rows`` to give back, ``[row]``: those that fit, at most ``limit`` (0: all).

    The best by total; names decide only among equals at the edge. A pod with soft preferences of its own
    gets all, so that those can choose; so does one that asks no GPU, which may go anywhere.
    """
    state = decision.snapshot.state_of[rows]
    fits = decision.fits[state]
    count = int(np.count_nonzero(fits))
    asks_gpu = isinstance(decision.request, GpuRequest) and decision.request.asks_gpu
    if not limit or count <= limit or decision.tolerance or not asks_gpu:
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


def points(totals: Floats, tolerance: float = 0.0) -> npt.NDArray[np.int64]:
    """Totals as kube-scheduler's 0 to 10.

    The best get 10, and only they; the rest 0 to 9, equal totals equal points, never in inverted order.
    kube-scheduler breaks ties at random, so whoever shares 10 with the best may win. Totals within
    ``tolerance`` of the best count as the best; -inf (does not fit) gets 0.
    """
    best = totals.max(initial=-np.inf)
    if best == -np.inf:
        return np.zeros(len(totals), np.int64)
    worst = totals.min(where=totals > -np.inf, initial=best)
    span = (best - worst) or 1.0
    scaled = np.maximum((totals - worst) / span * BEST_POINTS, 0.0)
    mapped: npt.NDArray[np.int64] = np.minimum(scaled, BEST_POINTS - 1).astype(np.int64)
    mapped[totals >= best - tolerance] = BEST_POINTS
    return mapped
