"""The best nodes of one decision, and their scores."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler_ext.core.cycle.cycle import Decision
from scheduler_ext.core.framework.decided import Candidate, Term
from scheduler_ext.core.node.columns import Ints

Names = Mapping[str, int]

# kube-scheduler adds its own scores and picks among the best at random, so it takes one of few nodes.
_KEPT = 5


def best_of(decision: Decision, rows: Ints) -> tuple[Candidate, ...]:
    """The best few nodes at ``rows`` that fit and are known by name, best first, equal ones by name."""
    snapshot = decision.snapshot
    known = rows[rows >= 0]
    totals = decision.totals[snapshot.state_of[known]]
    fitting = known[totals > -np.inf]
    if not len(fitting):
        return ()
    totals = decision.totals[snapshot.state_of[fitting]]
    order = np.lexsort((snapshot.name_rank[fitting], -totals))[:_KEPT]
    # A NameIndex has its names in the order of their rows.
    names = list(snapshot.row_of)
    states = snapshot.state_of[fitting]
    means = [float(value[states].mean()) for _, _, value in decision.scored.terms]
    return tuple(
        Candidate(
            names[int(fitting[i])],
            float(totals[i]),
            tuple(
                Term(score.name, weight, float(value[states[i]]), mean)
                for (score, weight, value), mean in zip(decision.scored.terms, means, strict=True)
            ),
            len(fitting),
        )
        for i in order
    )
