"""The run time of the next pod from those of comparable pods, without an assumption about their
distribution.

Hill's A(n) (B. M. Hill, "Posterior Distribution of Percentiles: Bayes' Theorem for Sampling from a
Population", JASA 63, 1968): the next of n + 1 comparable values lies in each gap between the n known ones
with probability 1/(n + 1), so that beyond the largest of them, with that probability, it is unknown.
F. P. A. Coolen and K. J. Yan ("Nonparametric predictive inference with right-censored data", Journal of
Statistical Planning and Inference 126, 2004) extend it to pods that still run: at the end of a run that k
pods had reached, the next pod ends with probability 1/(k + 1). A pod counts as one that reached an age only
if it was watched at that age, so that neither long nor short runs are favoured when the watch is young
(left truncation, as in the product-limit estimator). Where several pods are compared with the same runs,
their values depend on each other: the probability of each gap is drawn first, Beta(1, k) at each end, which
gives the joint distribution of A(n) for several next values."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class ObservedRun(NamedTuple):
    """A run that was watched between two ages of the pod, in seconds; `ended` at the second, or still
    running."""

    from_age_s: float
    to_age_s: float
    ended: bool


class Survival:
    """The distribution of the next run time."""

    def __init__(self, observed: Sequence[ObservedRun]) -> None:
        lefts = np.sort([each.to_age_s for each in observed])
        entered = np.sort([each.from_age_s for each in observed])
        self._ends: Floats = np.sort([each.to_age_s for each in observed if each.ended])
        # Of ends at the same age, one comes after the other.
        tied = np.arange(len(self._ends)) - np.searchsorted(self._ends, self._ends, "left")
        reached = len(lefts) - np.searchsorted(lefts, self._ends, "left") - tied
        later = len(entered) - np.searchsorted(entered, self._ends, "right")
        self._at_risk: Floats = np.maximum(reached - later, 1).astype(np.float64)

    @property
    def longest_s(self) -> float:
        """The longest run that ended; infinite without any."""
        return float(self._ends[-1]) if len(self._ends) else float("inf")

    def longer_than(self, age_s: float) -> int:
        """The number of runs that ended later than this age."""
        return len(self._ends) - int(np.searchsorted(self._ends, age_s, "right"))

    def remaining(self, ages_s: Floats, draws: int, random: np.random.Generator) -> Floats:
        """The remaining run times of pods of these ages, [draw, pod], in seconds; infinite where a pod
        outlasts all known runs. Within a gap, all values are equally likely."""
        ends, count = self._ends, len(self._ends)
        # The cumulative hazard after each end. -log(1 - Beta(1, k)) is exponential with the mean 1/k.
        hazard = np.zeros((draws, count + 1))
        np.cumsum(random.exponential(size=(draws, count)) / self._at_risk, axis=1, out=hazard[:, 1:])
        passed = np.searchsorted(ends, ages_s, "right")
        lived = hazard[:, passed] + random.exponential(size=(draws, len(ages_s)))
        found = np.empty((draws, len(ages_s)))
        bounds = np.concatenate(([0.0], ends, [np.inf]))
        for draw in range(draws):
            gap = np.searchsorted(hazard[draw], lived[draw], "left") - 1
            found[draw] = self._within(bounds, hazard[draw], gap, lived[draw], ages_s)
        return found

    @staticmethod
    def _within(
        bounds: Floats, hazard: Floats, gap: NDArray[np.intp], lived: Floats, ages_s: Floats
    ) -> Floats:
        """The remaining time of pods that end in these gaps, at this cumulative hazard."""
        known = gap < len(hazard) - 1
        gap = np.minimum(gap, len(hazard) - 2) if len(hazard) > 1 else np.zeros_like(gap)
        least = np.maximum(bounds[gap], ages_s)
        if not known.any():
            return np.full(len(ages_s), np.inf)
        part = np.expm1(hazard[gap] - lived) / np.expm1(hazard[gap] - hazard[gap + 1])
        return np.where(known, least + part * (bounds[gap + 1] - least) - ages_s, np.inf)
