"""What the extender replies, and what there is to count about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler_ext.core.cycle.cycle import Decision
from scheduler_ext.core.node.columns import Ints
from scheduler_ext.wire.extender_args import ExtenderArgs


class Basis(NamedTuple):
    """What an answer follows from, for whoever records it; ``rows`` are those of the nodes asked about."""

    raw_pod: bytes
    decision: Decision
    rows: Ints


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, and what there is to count about it; ``problem`` is set when the pod's wish is invalid.

    ``args`` is what the request was read into, for whoever sends the reply to hold until it is out: letting
    go of thousands of names takes a good part of a millisecond.
    """

    body: bytes
    nodes_in: int
    nodes_out: int
    rejected: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None
    args: ExtenderArgs | None = field(default=None, compare=False, repr=False)
    basis: Basis | None = field(default=None, compare=False, repr=False)
