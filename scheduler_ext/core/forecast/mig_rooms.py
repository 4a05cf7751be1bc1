"""The possible places of the next MIG instance, numbered, and what an instance in each costs future pods.

Many GPUs are alike, so the cost of a place is computed once per forecast, and a decision over all nodes looks
the costs up by number.
"""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.forecast.mig_value import MigWorth, expected_mix, mig_worth
from scheduler_ext.core.gpu.mig_profile import window
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.node.node import MigRoom
from scheduler_ext.core.request.pod_kinds import Workload

_DECIMALS = 9


class MigRooms:
    """Numbers of places; 0 means no place. One thread may write while any number read: numbers are only
    added, and the loss of a numbered place follows from the workload alone."""

    def __init__(self) -> None:
        self._numbers: dict[MigRoom | None, int] = {None: 0}
        self._rooms: list[MigRoom | None] = [None]
        # The latest losses that were computed, and the workload they belong to.
        self._known: tuple[Workload | None, Floats] = (None, np.zeros(1))

    def number(self, room: MigRoom | None) -> int:
        """The number of a place; a new place gets a new number."""
        number = self._numbers.get(room)
        if number is None:
            # The place comes before its number, for concurrent readers.
            number = len(self._rooms)
            self._rooms.append(room)
            self._numbers[room] = number
        return number

    def __len__(self) -> int:
        return len(self._rooms)

    def losses(self, workload: Workload) -> Floats:
        """The cost of an instance in each place for the pods of ``workload``, in GPUs, ``[number]``: the mean
        over the starts, and 0 where there is no place."""
        # Read once: another reader may replace it.
        known_for, losses = self._known
        if known_for is not workload:
            losses = np.zeros(1)
        rooms = [room for room in self._rooms[len(losses) :] if room is not None]
        if rooms or known_for is not workload:
            worth = {
                geometry: mig_worth(geometry, expected_mix(geometry, workload))
                for geometry in {room.geometry for room in rooms}
            }
            losses = np.append(losses, [_loss(room, worth[room.geometry]) for room in rooms])
            self._known = workload, losses
        return losses


def _loss(room: MigRoom, worth: MigWorth) -> float:
    profile = room.geometry.profile(room.profile)
    assert profile is not None  # a profile of this geometry
    after = np.array([room.held | window(profile, start) for start in room.starts])
    return round(float(worth.cost(np.full(len(after), room.held), after).mean()), _DECIMALS)
