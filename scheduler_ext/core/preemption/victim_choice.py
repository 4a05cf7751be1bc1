"""The choice of victims on one node: a first set that suffices, and a search for a cheaper one."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge

from scheduler_ext.core.preemption.dry_run import DryRun, Gone
from scheduler_ext.core.preemption.victim_kinds import focuses
from scheduler_ext.core.preemption.victim_search import Cost, Need, Pricing, Steps, cheapest_first
from scheduler_ext.core.request.request import GpuRequest

# Sets begun per evaluated set: beginning one costs a tenth of an evaluation.
_STEPS_PER_EVALUATION = 12
# How many sets are evaluated together, at first and at most.
_TOGETHER = (1, 16)


class Choice:
    """One node with the pods that may leave it, and what they must free."""

    def __init__(
        self,
        dry_run: DryRun,
        needs: Sequence[Need],
        pricing: Pricing,
        request: GpuRequest,
        evaluations: int,
    ) -> None:
        self.dry_run = dry_run
        self.pods = dry_run.pods
        self.pricing = pricing
        self._needs = needs
        self._request = request
        self._evaluations = evaluations
        self._reprieved: dict[Gone, Gone | None] = {}

    def suffices(self, gone: Gone) -> bool:
        """Whether the request fits when these leave."""
        return all(need.met_by(gone) for need in self._needs) and self.dry_run.fits(gone)

    def at_once(self, proposed: Gone) -> Gone | None:
        """The pods that remain of those proposed, or of all, when every pod that can be spared is; None where
        even all of them do not suffice."""
        gone = self._at_once(proposed)
        return gone if self._confirmed(gone) else self._at_once(proposed)

    def _confirmed(self, gone: Gone | None) -> bool:
        if gone is None or self.dry_run.confirm(gone):
            return True
        self._reprieved.clear()
        return False

    def _at_once(self, proposed: Gone) -> Gone | None:
        everybody = tuple(range(len(self.pods)))
        starts = (proposed, everybody) if proposed else (everybody,)
        return next((gone for start in starts if (gone := self.reprieved(start)) is not None), None)

    def cheapest(self, known: Gone | None, *, keep: bool) -> Gone | None:
        """The cheapest set that suffices, as far as the search goes: ``known`` unless a set is cheaper, or as
        cheap and ``known`` is not to ``keep``."""
        gone = self._cheapest(known, keep=keep)
        # The known set has been confirmed.
        return gone if gone == known or self._confirmed(gone) else self._cheapest(known, keep=keep)

    def _cheapest(self, known: Gone | None, *, keep: bool) -> Gone | None:
        steps = Steps(self._evaluations * _STEPS_PER_EVALUATION)
        below = None if known is None else self.pricing.cost(known)
        if below is not None and not keep:
            below = below._replace(age=float("inf"))
        found = self._search(below, steps)
        if not steps.exhausted:
            return known if found is None else found
        # The found set may not be the cheapest, and pods may be spared from it.
        starts = [start for start in (found, tuple(range(len(self.pods)))) if start is not None]
        sets = [known, *map(self.reprieved, starts)]
        return min((gone for gone in sets if gone is not None), key=self.pricing.cost, default=None)

    def reprieved(self, gone: Gone) -> Gone | None:
        """The pods that remain when one after the other is spared, as kube-scheduler does: first pods that
        violate a budget, then the most important; None where these pods do not suffice."""
        if gone not in self._reprieved:
            self._reprieved[gone] = self._reprieve(gone) if self.suffices(gone) else None
        return self._reprieved[gone]

    def _reprieve(self, gone: Gone) -> Gone:
        over = self.pricing.over(gone)
        order = tuple(i for _, i in sorted(zip((not each for each in over), gone, strict=True)))
        fewer = self._spared(gone, order)
        # Again: where departures may free too much, a pod may be spared once another one stays.
        while fewer != gone and not self.dry_run.only_room_grows:
            gone = fewer
            for i in order:
                fewer = self._spared(fewer, (i,))
        return fewer

    def _spared(self, gone: Gone, order: Gone) -> Gone:
        """What remains when those are spared in that order. Many can be, so all are tried together first."""
        fewer = tuple(i for i in gone if i not in order)
        if len(fewer) == len(gone) or self.suffices(fewer):
            return fewer
        if len(order) == 1:
            return gone
        half = len(order) // 2
        return self._spared(self._spared(gone, order[:half]), order[half:])

    def _search(self, below: Cost | None, steps: Steps) -> Gone | None:
        sets = merge(
            *(
                cheapest_first(focus.kinds, [*focus.needs, *self._needs], self.pricing, below, steps)
                for focus in focuses(self.dry_run, self.pricing, self._needs, self._request)
            )
        )
        together, most = _TOGETHER
        batch: list[Gone] = []
        looked_at = self.dry_run.evaluations
        for _, gone in sets:
            batch.append(gone)
            if len(batch) < together:
                continue
            if (found := self.dry_run.first_fit(batch)) is not None:
                return found
            batch, together = [], min(most, 2 * together)
            if self.dry_run.evaluations - looked_at >= self._evaluations:
                steps.left = -1
                return None
        return self.dry_run.first_fit(batch)
