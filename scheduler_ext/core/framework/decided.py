"""The record of a decision, as plain values: the best nodes, their scores, and the result of binding."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """One score of a node, 0 to 1; its part of the total, and the mean over the compared nodes."""

    name: str
    weight: float
    value: float
    mean: float

    @property
    def ahead(self) -> float:
        """The advantage over the mean node, as part of the total."""
        return self.weight * (self.value - self.mean)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that fits, its total and its terms; ``of`` is the number of nodes that fit."""

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
class Bound:
    """The end of a bind; ``kind`` as in ``BindResult``, ``devices`` UUIDs by container."""

    at: float
    node: str
    kind: str
    error: str
    devices: Mapping[str, tuple[str, ...]]
