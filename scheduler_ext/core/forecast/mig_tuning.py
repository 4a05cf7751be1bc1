"""The worth of MIG masks, tuned to one geometry and one mix: background work of about a second.

How much room is worth depends on who else has room, which no formula for a single GPU sees. So a few
formulas are tried on a pool of GPUs in a quick simulation, and the best one is improved by what it shows.

Slice acceptance of 100 GPUs at load 1.0, against the best of first fit, best fit, MFI and FGD for each of 36
pairs of a geometry and a mix that nothing was chosen by: 0.19 points above in the mean and 0.21 below at
worst, four pairs more than 0.1 below; with MigWeights' defaults alone 0.00, 1.25 and seven. On 44 stranger
pairs, of made-up geometries or with many single-instance profiles, which the pool leaves out: 0.17 above in
the mean, nine more than 0.1 below, the worst 1.9. The gain lasts at loads of 0.85 and 1.2, and with 20 and
400 GPUs, though the pool here is of 100. What did not help: relative values of a GPU by itself, which buys
what another would have taken (down to 73 points on the first mixes); a mean field of independent GPUs
instead of the simulation, which refuses half of what is refused; departures counted in the simulation
instead of tilings; going all the way; counting would-be refusals of every shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from scheduler_ext.core.forecast.mig_churn import Requests, churn, requests_for
from scheduler_ext.core.forecast.mig_pool import Indexes, MigPool, mig_pool
from scheduler_ext.core.forecast.mig_value import MigWeights, MigWorth, least_cost, mig_worth, mix_of
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.node.columns import Floats

# Formulas from plain to steep, among them FGD (1, 0) and nearly best fit (1, 1).
VARIANTS = (
    MigWeights(),
    MigWeights(1.0, 0.0),
    MigWeights(1.6, 0.04),
    MigWeights(1.0, 1.0),
)
# Pods that count in a try, and by how much of the slices one has to be better than another: of formulas that
# differ by less, chance would choose, and any of them can be improved.
_FIRST_PODS = 40_000
_FIRST_MARGIN = 0.0005
_PODS = 60_000
_MARGIN = 0.0003
_ROUNDS = 3
# How far each round goes from the old worth to the new one; all the way, GPUs overreact to each other.
_STEP = 0.3
# Parts of a mix are told apart this finely: in twentieths, 44 pairs of a geometry and a mix lost 0.09 points
# in the mean, as a profile of few pods was forgotten or doubled.
_STEPS_OF_PARTS = 200
# A mix of which so much, in total variation, is of other profiles is another one.
_NEAR = 0.1
# NVIDIA's largest; sets of masks of more units take too much memory.
_LARGEST_GRID = 12
# Solving takes the cube of this.
_MOST_STATES = 1100


def rounded_parts(geometry: Geometry, mix: Mapping[str, float]) -> tuple[float, ...]:
    """The parts of ``mix`` that ask for a geometry's profiles, ``[profile]``, so coarse that mixes are often
    the same."""
    parts = mix_of(geometry, mix)
    steps = np.round(parts * _STEPS_OF_PARTS)
    if steps.any():
        parts = steps / steps.sum()
    return tuple(np.round(parts, 6).tolist())


@dataclass(frozen=True, eq=False)
class MigTables:
    """What was tuned, for each geometry, to be used while the mix stays near the one it was tuned to.

    Tables never change: tuning gives others, which hold from the forecast on that is made with them.
    """

    _tuned: Mapping[Geometry, tuple[Floats, MigWorth]] = field(default_factory=dict)

    @classmethod
    def of(cls, mixes: Iterable[tuple[Geometry, tuple[float, ...]]]) -> MigTables:
        """Tables tuned to these ``mixes``, the part of each profile by geometry: about a second for each."""
        return cls({geometry: (np.array(parts), tuned_worth(geometry, parts)) for geometry, parts in mixes})

    def tuned_to(self, mixes: Mapping[Geometry, Mapping[str, float]]) -> MigTables:
        """Tables tuned to these mixes, which takes about a second for each that is new; the same where none
        is. Geometries that are not named keep what they have."""
        new = {
            geometry: rounded_parts(geometry, mix)
            for geometry, mix in mixes.items()
            if self._near(geometry, mix) is None
        }
        return MigTables({**self._tuned, **MigTables.of(new.items())._tuned}) if new else self

    def worth(self, geometry: Geometry, mix: Mapping[str, float]) -> MigWorth:
        """What was tuned to about this mix, else the formula that suits all."""
        return self._near(geometry, mix) or mig_worth(geometry, mix)

    @property
    def mixes(self) -> list[tuple[Geometry, tuple[float, ...]]]:
        """What was tuned to, by geometry: the part of each profile."""
        return [(geometry, tuple(parts.tolist())) for geometry, (parts, _) in self._tuned.items()]

    def _near(self, geometry: Geometry, mix: Mapping[str, float]) -> MigWorth | None:
        known = self._tuned.get(geometry)
        if known is None or np.abs(known[0] - mix_of(geometry, mix)).sum() / 2 > _NEAR:
            return None
        return known[1]


UNTUNED = MigTables()


@lru_cache(maxsize=256)
def tuned_worth(geometry: Geometry, parts: tuple[float, ...]) -> MigWorth:
    """The best worth found for pods that ask for profiles in these parts, ``[profile]``; always the same."""
    mix = {profile.name: part for profile, part in zip(geometry.profiles, parts, strict=True)}
    if geometry.grid > _LARGEST_GRID:
        return mig_worth(geometry, mix)
    pool = mig_pool(geometry, np.array(parts))
    best = _best_formula(pool, [mig_worth(geometry, mix, weights) for weights in VARIANTS])
    if len(pool.masks) > _MOST_STATES:
        return _never_below_none(geometry, best)
    requests = requests_for(pool, _PODS)
    accepted, runners_up = _tried(pool, best, requests)
    step = _STEP
    for _ in range(_ROUNDS):
        worth = improved(pool, best, runners_up, step)
        part, seen = _tried(pool, worth, requests)
        if part > accepted + _MARGIN:
            best, accepted, runners_up = worth, part, seen
        else:
            step /= 2
    return _never_below_none(geometry, best)


def _best_formula(pool: MigPool, formulas: Sequence[MigWorth]) -> MigWorth:
    requests = requests_for(pool, _FIRST_PODS)
    accepted = [_tried(pool, worth, requests)[0] for worth in formulas]
    best = int(np.argmax(accepted))
    return formulas[best] if accepted[best] > accepted[0] + _FIRST_MARGIN else formulas[0]


def _tried(pool: MigPool, worth: MigWorth, requests: Requests) -> tuple[float, Floats]:
    return churn(pool, *pool.choices(least_cost(pool.geometry, worth.cost)), requests)


def improved(pool: MigPool, worth: MigWorth, runners_up: Floats, step: float) -> MigWorth:
    """A step towards what each mask is worth to a GPU among others.

    Of each pod a GPU gets what the next best one would have lost by it (``runners_up``, as of ``churn``), and
    all of it where no other has room; it comes where the GPU loses less. That and the departures make a
    Markov reward process, whose relative values say what a mask is worth. Placing by these is a step of
    policy iteration (Howard 1960), where prices stand for the rest of the pool.
    """
    _, after = pool.choices(least_cost(pool.geometry, worth.cost))
    before = worth.worth[pool.masks]
    # Without the charge for what stays free, which is there to break near ties.
    cost = np.where(after >= 0, before - before[after], np.inf)
    charge = worth.worth - worth.kept
    states = len(pool.masks)
    moves = pool.departures.copy()
    reward = np.zeros(states)
    here = np.arange(states)
    for shape, arrivals in enumerate(pool.arrivals.tolist()):
        often, paid = _sales(cost[shape], runners_up[shape], pool.sizes[shape] / pool.geometry.grid)
        fits = after[shape] >= 0
        moves[here[fits], after[shape][fits]] += arrivals * often[fits]
        reward[fits] += arrivals * paid[fits]
    values = _relative_values(moves, reward)
    made = worth.worth.copy()
    made[pool.masks] = before + step * (values - values[0] + before[0] - before)
    return MigWorth(made, made - charge)


def _sales(cost: Floats, runners_up: Floats, all_of_it: float) -> tuple[Floats, Floats]:
    """The part of a shape's pods that come to a GPU of each mask, and what it gets for these, per pod,
    ``[state]``."""
    offers = np.append(cost, np.inf)
    order: Indexes = np.argsort(offers, kind="stable")
    prices = np.where(np.isfinite(offers), offers, all_of_it)[order]
    often = runners_up[order] / max(float(runners_up.sum()), 1.0)
    # All with a dearer offer than one's own, from the dearest down.
    above = np.append(often[::-1].cumsum()[::-1], 0.0)
    paid = np.append((often * prices)[::-1].cumsum()[::-1], 0.0)
    first = np.searchsorted(offers[order], cost, side="right")
    # No offer at all is dearer than any, and sorts as equal to a GPU without room.
    return above[first], paid[first]


def _relative_values(moves: Floats, reward: Floats) -> Floats:
    """What it is worth to be in each state rather than in the first, ``[state]``; ``moves`` are rates."""
    states = len(reward)
    system = np.zeros((states + 1, states + 1))
    system[:states, :states] = moves
    system[range(states), range(states)] -= moves.sum(1)
    system[:states, states] = -1.0
    system[states, 0] = 1.0
    values: Floats = np.linalg.solve(system, np.append(-reward, 0.0))[:states]
    return values


def _never_below_none(geometry: Geometry, worth: MigWorth) -> MigWorth:
    """The same order of choices, of which none costs less than nothing; read-only."""
    cost = least_cost(geometry, worth.cost).cost
    kept = worth.kept + min(float(cost.min()), 0.0)
    worth.worth.setflags(write=False)
    kept.setflags(write=False)
    return MigWorth(worth.worth, kept)
