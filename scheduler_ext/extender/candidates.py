"""The best nodes of one decision, and their scores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from scheduler_ext.core.cycle.cycle import Decision
from scheduler_ext.core.framework.decided import Candidate, Term
from scheduler_ext.core.node.columns import Ints
from scheduler_ext.core.snapshot.name_index import NameIndex

Names = Mapping[str, int]

# kube-scheduler adds its own scores and picks among the best at random, so it takes one of few nodes.
_KEPT = 5
_REMEMBERED_INDICES = 4


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
    names = _by_row(snapshot.row_of)
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


class _Identity:
    """An index as a key that equals only itself: comparing thousands of names would take longer."""

    def __init__(self, index: NameIndex) -> None:
        self.index = index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.index is other.index

    def __hash__(self) -> int:
        return id(self.index)


def _by_row(index: NameIndex) -> list[str]:
    return _inverted(_Identity(index))


@lru_cache(maxsize=_REMEMBERED_INDICES)
def _inverted(key: _Identity) -> list[str]:
    names = [""] * len(key.index)
    for name, row in key.index.items():
        names[row] = name
    return names
