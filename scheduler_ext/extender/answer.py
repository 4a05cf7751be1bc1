"""The extender's reply, with the values that are counted and recorded about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler_ext.core.cycle.cycle import Decision
from scheduler_ext.core.node.columns import Ints
from scheduler_ext.wire.extender_args import ExtenderArgs


class Basis(NamedTuple):
    """The basis of an answer, for the record; ``rows`` are those of the requested nodes."""

    raw_pod: bytes
    decision: Decision
    rows: Ints


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply and its counts; ``problem`` is set if the pod's request is invalid.

    The sender of the reply holds ``args``, the decoded request, until the reply is out: releasing thousands
    of names takes a good part of a millisecond.
    """

    body: bytes
    nodes_in: int
    nodes_out: int
    rejected: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None
    args: ExtenderArgs | None = field(default=None, compare=False, repr=False)
    basis: Basis | None = field(default=None, compare=False, repr=False)
