"""The values of a search for moves: its bounds, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler_ext.features.defrag.movable import MovablePod
from scheduler_ext.whatif.whatif import PodInfo

# At 1,213 nodes this takes about a second.
WORK = 600


@dataclass(frozen=True, slots=True)
class Hold:
    """Room on a node that is held for a pod while others move. `devices` are the GPUs of its shares, by
    container: those that it will get once the pods of the set have left."""

    node: str
    pod_info: PodInfo
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Move:
    """One pod's move: evicted from its node, and created again on node `to` with these devices, while room
    is held as in `holds`."""

    pod: MovablePod
    to: str
    devices: Sequence[dict[str, Any]]
    holds: Sequence[Hold]


@dataclass(frozen=True, slots=True)
class Room:
    """The node where a pod fits after these moves, in their order."""

    node: str
    moves: Sequence[Move]


@dataclass(frozen=True, slots=True)
class Effort:
    """Bounds of a search: how deep room is made for pods that move, how many moves a plan has at most, and
    the work: one for each set of pods that is compared, and for each move that is tried, and one for each
    `bounds_per_work` nodes whose bound is computed."""

    depth: int = 2
    most_moves: int = 12
    work: int = WORK
    bounds_per_work: int = 12

    @classmethod
    def thorough(cls) -> Effort:
        """Ten times the work."""
        return cls(work=10 * WORK)


@dataclass(frozen=True, slots=True)
class Stuck:
    """The cheapest set that did not lead to a plan: its pods leave `node`, and `pod` finds no other place;
    None if all do and the node still refuses the pod."""

    node: str
    pods: Sequence[MovablePod]
    pod: MovablePod | None
