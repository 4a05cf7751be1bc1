"""The cluster of an estimate: free amounts on nodes, pods that hold some, and pods that wait for some.
It counts amounts only: which GPU of a node a pod gets makes no difference here."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import ge
from typing import TypeAlias

from scheduler_ext.features.gangs.queue.run_times import RunKind

Amounts: TypeAlias = tuple[int, ...]
"""One number for each kind of amount, in the same order everywhere in one estimate."""


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod on a node. It has run for `age_s`; `limit_s` is how much longer at most, by what it states. One
    that is `leaving` already goes at once."""

    node: str
    amounts: Amounts
    kind: RunKind
    age_s: float
    limit_s: float | None = None
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Waiter:
    """A waiting pod, or the pods of a gang, which start together: what each of them asks, all `within` these
    nodes. It runs for `limit_s` at most once it has started. `places` are nodes that have room for all of
    its pods now; `kept` are nodes on which nothing behind it in the queue may start before it has. One that
    is `refused` fits nowhere now, whatever the amounts say: it starts on a node that a pod has left."""

    asks: tuple[Amounts, ...]
    within: frozenset[str]
    kind: RunKind
    priority: int = 0
    limit_s: float | None = None
    places: tuple[str, ...] = ()
    kept: frozenset[str] = frozenset()
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Pods that were created in the last `over_s` seconds, each alone: further ones come like them."""

    seen: Sequence[Waiter] = ()
    over_s: float = 0.0


def fits(free: Amounts, ask: Amounts) -> bool:
    return all(map(ge, free, ask))


def less(free: Amounts, ask: Amounts) -> Amounts:
    return tuple(have - asked for have, asked in zip(free, ask, strict=True))


def more(free: Amounts, left: Amounts) -> Amounts:
    return tuple(have + given for have, given in zip(free, left, strict=True))
