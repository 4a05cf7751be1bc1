"""Every place where a next MIG instance may lie, by number, and what it costs the pods to come there.

Many GPUs are alike, so a place is worked out once per forecast, and a decision over all nodes takes the
losses by their numbers.
"""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.forecast.mig_tuning import MigTables
from scheduler_ext.core.forecast.mig_value import MigWorth, expected_mix
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import window
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.node.node import MigRoom
from scheduler_ext.core.request.pod_kinds import Workload

_DECIMALS = 9


class MigRooms:
    """Numbers of places; 0 is none. For one writer and any number of readers: numbers are only added, so the
    loss of a numbered place follows from a workload and tables alone, whenever it is looked up."""

    def __init__(self) -> None:
        self._numbers: dict[MigRoom | None, int] = {None: 0}
        self._rooms: list[MigRoom | None] = [None]
        # The last losses that were looked up, and by what.
        self._known: tuple[Workload | None, MigTables | None, Floats] = (None, None, np.zeros(1))

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

    def losses(self, workload: Workload, tables: MigTables) -> Floats:
        """What an instance in each place costs the pods of ``workload``, in GPUs, ``[number]``, 0 where
        nothing is known; the mean over the starts."""
        # Read once, as another reader may put a new one in its place.
        of, by, losses = self._known
        same = of is workload and by is tables
        if not same:
            losses = np.zeros(1)
        rooms = [room for room in self._rooms[len(losses) :] if room is not None]
        if rooms or not same:
            worth = {
                geometry: tables.worth(geometry, expected_mix(geometry, workload))
                for geometry in {room.geometry for room in rooms}
            }
            losses = np.append(losses, [_loss(room, worth[room.geometry]) for room in rooms])
            self._known = workload, tables, losses
        return losses

    def tables_for(self, workload: Workload, tables: MigTables) -> MigTables:
        """These tables, tuned to what the pods of ``workload`` ask: background work of about a second for
        each geometry where the mix is new. Where nothing was tuned, a formula that fits all mixes is used."""
        geometries: dict[Geometry, None] = dict.fromkeys(
            room.geometry for room in list(self._rooms) if room is not None
        )
        return tables.tuned_to({geometry: expected_mix(geometry, workload) for geometry in geometries})


def _loss(room: MigRoom, worth: MigWorth) -> float:
    profile = room.geometry.profile(room.profile)
    assert profile is not None  # of the geometry's own
    after = np.array([room.held | window(profile, start) for start in room.starts])
    return round(float(worth.cost(np.full(len(after), room.held), after).mean()), _DECIMALS)
