"""What is remembered of a decision, as plain values: the best nodes, their scores, and who bound the pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """One score of a node, 0 to 1; its part of the total, and the mean over the nodes compared."""

    name: str
    weight: float
    value: float
    mean: float

    @property
    def ahead(self) -> float:
        """How much of the total it is better by than the mean node."""
        return self.weight * (self.value - self.mean)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that fits, its total and its terms; ``of`` so many that fit."""

    node: str
    total: float
    terms: tuple[Term, ...]
    of: int

    @property
    def strongest(self) -> list[Term]:
        """The two terms by which it is ahead most; fewer where it is ahead in fewer."""
        ahead = sorted((term for term in self.terms if term.ahead > 0), key=lambda term: -term.ahead)
        return ahead[:2]


@dataclass(frozen=True, slots=True)
class Bound:
    """How a bind ended; ``kind`` as in ``BindResult``, ``devices`` UUIDs by container."""

    at: float
    node: str
    kind: str
    error: str
    devices: Mapping[str, tuple[str, ...]]
