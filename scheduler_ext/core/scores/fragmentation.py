"""Leave idle what the next pods can use."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.columns import Floats
from scheduler_ext.core.criterion import Scoring
from scheduler_ext.core.fragmentation import WHOLE_CLASSES, fragmented_share, fragmented_whole


class Fragmentation:
    """1 where the placement makes the most idle capacity usable again, 0 where it spoils the most."""

    name = "fragmentation"

    def applies(self, scoring: Scoring) -> bool:
        whole = any(ask.profile is None for ask, _ in scoring.units)
        return scoring.strategy == "fragmentation" and (whole or scoring.fit is not None)

    def value(self, scoring: Scoring) -> Floats:
        spoilt = np.zeros(len(scoring.snapshot.states))
        for ask, columns in scoring.units:
            if ask.profile is None:
                free = columns.available
                change = fragmented_whole(free - ask.count) - fragmented_whole(free)
                spoilt += change / max(WHOLE_CLASSES)
        if scoring.fit is not None:
            devices = scoring.snapshot.devices
            room, size, load = devices.share_room_mib, devices.share_size_mib, scoring.fit.load_mib
            if len(scoring.per_share) == 1:
                # Only one GPU changes, so only that one is looked at.
                where = scoring.per_share[0]
                room, size, load = room[where][None], size[where][None], load[where][None]
            after = fragmented_share(np.maximum(room - load, 0) / size)
            spoilt += (after - fragmented_share(room / size)).sum(0)
        value: Floats = np.clip(0.5 - spoilt / 2, 0.0, 1.0)
        return value
