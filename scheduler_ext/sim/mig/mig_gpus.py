"""Identical GPUs and the MIG instances on them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import media_conflict, window
from scheduler_ext.sim.mig.mig_policy import OccupiedMasks


class MigGpus:
    """The occupied units of each GPU, as masks ``[gpu]``, and the profiles that it cannot take in any
    place."""

    def __init__(self, geometry: Geometry, gpus: int) -> None:
        self._geometry = geometry
        self._full = (1 << geometry.grid) - 1
        self._masks = np.zeros(gpus, np.int64)
        self._held = np.zeros((gpus, len(geometry.profiles)), np.int64)
        self._ruled = _ruled(geometry)
        self.held_units = 0

    def masks_for(self, profile: int) -> OccupiedMasks:
        """The occupied units of each GPU, ``[gpu]``; all units if the GPU can take no ``profile``."""
        rule = self._ruled[profile]
        if rule is None:
            return self._masks
        cap, foes = rule
        barred = (self._held[:, profile] >= cap) | self._held[:, foes].any(1)
        return np.where(barred, self._full, self._masks)

    def create(self, gpu: int, profile: int, start: int) -> None:
        """Create an instance; raises ValueError for an illegal place."""
        asked = self._geometry.profiles[profile]
        taken = window(asked, start)
        if start not in asked.starts or self.masks_for(profile)[gpu] & taken:
            raise ValueError(f"GPU {gpu}: {asked.name} cannot lie at start {start}")
        self._masks[gpu] |= taken
        self._held[gpu, profile] += 1
        self.held_units += asked.size

    def destroy(self, gpu: int, profile: int, start: int) -> None:
        """Destroy an instance."""
        asked = self._geometry.profiles[profile]
        self._masks[gpu] &= ~window(asked, start)
        self._held[gpu, profile] -= 1
        self.held_units -= asked.size


_Rule = tuple[int, npt.NDArray[np.intp]]


def _ruled(geometry: Geometry) -> list[_Rule | None]:
    """For each profile with limits besides its places: its cap, and the profiles it conflicts with."""
    rules: list[_Rule | None] = []
    for profile in geometry.profiles:
        foes = [
            index for index, other in enumerate(geometry.profiles) if media_conflict(profile.name, other.name)
        ]
        # Placement alone allows at most this number.
        binding = profile.max_instances < min(len(profile.starts), geometry.grid // profile.size)
        rules.append((profile.max_instances, np.array(foes, np.intp)) if binding or foes else None)
    return rules
