"""Every place where a next MIG instance may lie, by number, and what it costs the pods to come there.

Many GPUs are alike, so a place is worked out once per forecast, and a decision over all nodes takes the
losses by their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler_ext.core.columns import Floats
from scheduler_ext.core.mig import window
from scheduler_ext.core.mig_geometry import Geometry
from scheduler_ext.core.mig_tuning import MigTuner
from scheduler_ext.core.mig_value import MigWorth, expected_mix
from scheduler_ext.core.node import MigRoom
from scheduler_ext.core.workload import Workload

_DECIMALS = 9
_NOTHING_KNOWN: tuple[Workload | None, Floats] = (None, np.zeros(1))


class MigRooms:
    """Numbers of places; 0 is none. For one writer and any number of readers: numbers are only added.

    ``before`` are those whose tables are taken over.
    """

    def __init__(self, before: MigRooms | None = None) -> None:
        self._tuner: MigTuner = before._tuner if before is not None else MigTuner()
        self._numbers: dict[MigRoom | None, int] = {None: 0}
        self._rooms: list[MigRoom | None] = [None]
        self._known = _NOTHING_KNOWN

    def number(self, room: MigRoom | None) -> int:
        """The number of a place, a new one where it is new."""
        number = self._numbers.get(room)
        if number is None:
            # A reader that finds the number finds the place.
            number = len(self._rooms)
            self._rooms.append(room)
            self._numbers[room] = number
        return number

    def __len__(self) -> int:
        return len(self._rooms)

    def losses(self, workload: Workload) -> Floats:
        """What an instance in each place costs the pods of ``workload``, in GPUs, ``[number]``, 0 where
        nothing is known; the mean over the starts."""
        # Read once, as another reader may put a new one in its place.
        of, losses = self._known
        if of is not workload:
            losses = np.zeros(1)
        rooms = [room for room in self._rooms[len(losses) :] if room is not None]
        if rooms or of is not workload:
            worth = {
                geometry: self._tuner.worth(geometry, expected_mix(geometry, workload))
                for geometry in {room.geometry for room in rooms}
            }
            losses = np.append(losses, [_loss(room, worth[room.geometry]) for room in rooms])
            self._known = workload, losses
        return losses

    def prepare(self, workload: Workload) -> None:
        """Tune the tables to what these pods ask: background work of about a second for each geometry, where
        the mix is new. Without it, or until it is done, a formula that fits all mixes is used."""
        for geometry in dict.fromkeys(room.geometry for room in list(self._rooms) if room is not None):
            if self._tuner.tune(geometry, expected_mix(geometry, workload)):
                self._known = _NOTHING_KNOWN

    @property
    def tuned(self) -> list[tuple[Geometry, tuple[float, ...]]]:
        """The mixes that tables were tuned to, by geometry: how much of what is asked is of each profile."""
        return self._tuner.mixes()

    def restore(self, tuned: Sequence[tuple[Geometry, tuple[float, ...]]]) -> None:
        """Tune tables to the same mixes again: about a second for each."""
        self._tuner.restore(tuned)
        self._known = _NOTHING_KNOWN


def _loss(room: MigRoom, worth: MigWorth) -> float:
    profile = room.geometry.profile(room.profile)
    assert profile is not None  # of the geometry's own
    after = np.array([room.held | window(profile, start) for start in room.starts])
    return round(float(worth.cost(np.full(len(after), room.held), after).mean()), _DECIMALS)
