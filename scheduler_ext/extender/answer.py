"""The extender's reply, and the values that are counted and recorded about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from scheduler_ext.core.cycle.cycle import Decision
from scheduler_ext.core.node.columns import Ints
from scheduler_ext.wire.extender_args import ExtenderArgs

Names = Mapping[str, int]

# kube-scheduler adds its own scores and picks among the best at random, so it takes one of few nodes.
_KEPT = 5


class DecisionBasis(NamedTuple):
    """The basis of an answer, for the record; `rows` are those of the requested nodes."""

    raw_pod: bytes
    decision: Decision
    rows: Ints


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply and its counts; `problem` is set if the pod's request is invalid. The sender of the reply
    holds `args`, the decoded request, until the reply is out: releasing thousands of names takes a good
    part of a millisecond."""

    body: bytes
    nodes_in: int
    nodes_out: int
    rejected: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None
    args: ExtenderArgs | None = field(default=None, compare=False, repr=False)
    basis: DecisionBasis | None = field(default=None, compare=False, repr=False)


class Term(NamedTuple):
    """One score of a node, 0 to 1; its part of the total, and the mean over the compared nodes."""

    name: str
    weight: float
    value: float
    mean: float

    @property
    def ahead(self) -> float:
        """The advantage over the mean node, as part of the total."""
        return self.weight * (self.value - self.mean)


class ScoredNode(NamedTuple):
    """A node that fits, its total and its terms; `of` is the number of nodes that fit."""

    node: str
    total: float
    terms: tuple[Term, ...]
    of: int

    @property
    def strongest(self) -> list[Term]:
        """The two terms with the largest advantages; fewer if fewer have one."""
        ahead = sorted((term for term in self.terms if term.ahead > 0), key=lambda term: -term.ahead)
        return ahead[:2]


@dataclass(frozen=True, slots=True)
class RecordedBind:
    """The end of a bind; `kind` as in `BindResult`, `devices` UUIDs by container."""

    at: float
    node: str
    kind: str
    error: str
    devices: Mapping[str, tuple[str, ...]]


def best_of(decision: Decision, rows: Ints) -> tuple[ScoredNode, ...]:
    """The best few nodes at `rows` that fit and are known by name, best first, equal ones by name."""
    snapshot = decision.snapshot
    known = rows[rows >= 0]
    fitting = known[decision.totals[snapshot.state_of[known]] > -np.inf]
    if not len(fitting):
        return ()
    states = snapshot.state_of[fitting]
    totals = decision.totals[states]
    order = np.lexsort((snapshot.name_rank[fitting], -totals))[:_KEPT]
    terms = [
        (score.name, weight, value[states[order]].tolist(), float(value[states].mean()))
        for score, weight, value in decision.scored.terms
    ]
    return tuple(
        ScoredNode(
            snapshot.row_of.names[row],
            total,
            tuple(Term(name, weight, values[place], mean) for name, weight, values, mean in terms),
            len(fitting),
        )
        for place, (row, total) in enumerate(
            zip(fitting[order].tolist(), totals[order].tolist(), strict=True)
        )
    )
