"""The cost of MIG instances in plain Python: every set of starts is tried."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from scheduler_ext.core.forecast.mig_value import MigWeights, shapes
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import Profile, window
from scheduler_ext.core.node.node import InstancePlacements
from scheduler_ext.core.request.pod_kinds import Workload


@cache
def most(profile: Profile, mask: int, left: int) -> int:
    """How many of a profile fit beside a mask: every set of starts is tried."""
    taken = [window(profile, start) for start in profile.starts] if left else []
    return max([0, *(1 + most(profile, mask | units, left - 1) for units in taken if not mask & units)])


def worth_of(geometry: Geometry, mix: Mapping[str, float], mask: int, exponent: float) -> float:
    """The part of a mask's room that the pods of a mix can use, in GPUs."""
    parts = dict(mix) if any(mix.values()) else {geometry.profiles[i].name: 1.0 for i in shapes(geometry)}
    worth = 0.0
    for profile in geometry.profiles:
        empty = most(profile, 0, profile.max_instances)
        part = most(profile, mask, profile.max_instances) / empty
        worth += parts.get(profile.name, 0.0) * profile.size * empty * part**exponent
    return worth / sum(parts.values()) / geometry.grid


def cost_of(
    geometry: Geometry, mix: Mapping[str, float], mask: int, after: int, weights: MigWeights
) -> float:
    """The cost of an instance that leaves `after` of `mask`."""
    lost = worth_of(geometry, mix, mask, weights.exponent) - worth_of(geometry, mix, after, weights.exponent)
    return lost + weights.best_fit * (geometry.grid - after.bit_count()) / geometry.grid


def loss_of(room: InstancePlacements | None, workload: Workload) -> float:
    """The mean cost of the next instance over its possible places."""
    if room is None:
        return 0.0
    geometry, profile = room.geometry, room.geometry.profile(room.profile)
    assert profile is not None
    mix = {profile.name: 0.0 for profile in geometry.profiles}
    for task, part in workload.parts.items():
        for name, count in task.mig:
            if name in mix:
                mix[name] += part * count
    for index in shapes(geometry):
        mix[geometry.profiles[index].name] += workload.unknown / len(shapes(geometry))
    costs = [
        cost_of(geometry, mix, room.held, room.held | window(profile, start), MigWeights())
        for start in room.starts
    ]
    return sum(costs) / len(costs) + 0.08 * (geometry.grid - room.instances) / geometry.grid
