"""What a MIG instance in each place costs future pods. It depends on the occupancy mask of the GPU
(mig_geometry.py), the number of instances there and the profile only, so that a decision over many GPUs is a
lookup."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import window
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.node.node import InstancePlacements
from scheduler_ext.core.request.pod_kinds import Workload

Masks = npt.NDArray[np.int64]

# Sums of fractions are inexact; costs that differ by less count as equal.
DECIMALS = 9


@dataclass(frozen=True, slots=True)
class MigWeights:
    """The weight of room for several instances, and two charges, in GPUs. `exponent`: a GPU that holds a
    fraction of the instances that fit an empty GPU is worth this power of the fraction. Above 1, room on
    emptier GPUs is worth more, because a larger instance may still fit there. `best_fit` is the charge
    for a GPU whose units all stay free, in proportion to the free units. `company` is the charge for a
    GPU without instances, less for each that it has: a GPU with several instances takes long to become
    empty anyway, so a further one delays that less. The first two defaults are one pair for all
    geometries and mixes, from the middle of a plateau. The slice acceptance of 100 GPUs at offered load
    1.0 was compared with the best of first fit, best fit, MFI and FGD for 42 pairs of a geometry and a
    mix. Mean and worst difference: 0.11 and -0.11 points with (1.35, 0.02), 0.09 and -0.12 with (1.25,
    0.04), 0.09 and -0.29 with (1.6, 0.04), -0.22 and -2.69 with (1, 0), which is FGD. On 52 other pairs
    the defaults reached 0.11 and -0.47; 47 of these were at most 0.1 below. The difference is largest if
    small profiles are common. `company` was found on the four mixes of docs/concepts/placement.md, which
    has more figures and a list of what gained nothing more."""

    exponent: float = 1.35
    best_fit: float = 0.02
    company: float = 0.08


@dataclass(frozen=True, eq=False)
class MigWorth:
    """The worth of a GPU to future MIG pods, in GPUs, `[mask]`: `worth` by the room it has, `kept`
    after a placement there, less the charge for free units. `company` `[instances]` is the charge by the
    number of instances that a GPU has before."""

    worth: Floats
    kept: Floats
    company: Floats

    def cost(self, before: Masks, after: Masks) -> Floats:
        """The cost of an instance that changes one mask into another, `[case]`, without `company`."""
        lost: Floats = self.worth[before] - self.kept[after]
        return lost


def mig_mix(workload: Workload) -> dict[str, float]:
    """Requests for each profile, per pod; empty if no pod requests MIG."""
    mix: dict[str, float] = {}
    for task, part in workload.parts.items():
        for name, count in task.mig:
            mix[name] = mix.get(name, 0.0) + part * count
    return mix


def expected_mix(geometry: Geometry, workload: Workload) -> dict[str, float]:
    """Expected requests for each profile of a geometry; unknown pods request every shape equally often."""
    known = mig_mix(workload)
    mix = {profile.name: known[profile.name] for profile in geometry.profiles if profile.name in known}
    alike = shapes(geometry)
    for index in alike:
        name = geometry.profiles[index].name
        mix[name] = mix.get(name, 0.0) + workload.unknown / len(alike)
    return mix


def mig_worth(geometry: Geometry, mix: Mapping[str, float], weights: MigWeights = MigWeights()) -> MigWorth:
    """The worth of each mask to the pods of `mix`, read-only."""
    worth = usable_units(geometry, mix, weights.exponent)
    masks = np.arange(1 << geometry.grid, dtype=np.int64)
    kept = worth - weights.best_fit * (geometry.grid - np.bitwise_count(masks)) / geometry.grid
    company = weights.company * (1.0 - np.arange(geometry.grid + 1) / geometry.grid)
    for table in (worth, kept, company):
        table.setflags(write=False)
    return MigWorth(worth, kept, company)


def usable_units(geometry: Geometry, mix: Mapping[str, float], exponent: float) -> Floats:
    """The free units of each mask that the pods of `mix` can use, in GPUs, `[mask]`. The mean over
    profiles of size * (instances that fit an empty GPU) * (fraction of these that still fit) ** exponent.
    With an exponent of 1, the free units less this value are the fragmentation of Weng et al., "Beware of
    Fragmentation" (USENIX ATC'23), of a GPU whose residual is a mask."""
    placeable = geometry.placeable
    sizes = np.array([profile.size for profile in geometry.profiles], np.float64)
    empty = placeable[0].astype(np.float64)
    parts = (placeable / empty) ** exponent
    worth: Floats = parts @ (mix_of(geometry, mix) * sizes * empty) / geometry.grid
    return worth


def mix_of(geometry: Geometry, mix: Mapping[str, float]) -> Floats:
    """The fractions of `mix` by profile, `[profile]`; without any of them, all shapes are equal."""
    asked = np.array([max(mix.get(profile.name, 0.0), 0.0) for profile in geometry.profiles])
    if not asked.any():
        asked[list(shapes(geometry))] = 1.0
    part: Floats = asked / asked.sum()
    return part


def shapes(geometry: Geometry) -> tuple[int, ...]:
    """One profile of each size and set of starts, by index: the +me, +gfx and -me variants share a shape."""
    chosen: dict[tuple[int, tuple[int, ...]], int] = {}
    for index, profile in enumerate(geometry.profiles):
        known = chosen.setdefault((profile.size, profile.starts), index)
        if profile.max_instances > geometry.profiles[known].max_instances:
            chosen[profile.size, profile.starts] = index
    return tuple(sorted(chosen.values()))


class NumberedPlacements:
    """The placements of MIG instances, numbered; 0 means none. One thread may write while any number read:
    numbers are only added, and the loss of each follows from the workload alone."""

    def __init__(self) -> None:
        self._numbers: dict[InstancePlacements | None, int] = {None: 0}
        self._placements: list[InstancePlacements | None] = [None]
        # The latest losses that were computed, and the workload they belong to.
        self._known: tuple[Workload | None, Floats] = (None, np.zeros(1))

    def number(self, placements: InstancePlacements | None) -> int:
        """Their number; new ones get a new number."""
        number = self._numbers.get(placements)
        if number is None:
            # The placements come before their number, for concurrent readers.
            number = len(self._placements)
            self._placements.append(placements)
            self._numbers[placements] = number
        return number

    def __len__(self) -> int:
        return len(self._placements)

    def losses(self, workload: Workload) -> Floats:
        """The mean cost over the starts of each for the pods of `workload`, in GPUs, `[number]`."""
        # Read once: another reader may replace it.
        known_for, losses = self._known
        if known_for is not workload:
            losses = np.zeros(1)
        placements = [each for each in self._placements[len(losses) :] if each is not None]
        if placements or known_for is not workload:
            worth = {
                geometry: mig_worth(geometry, expected_mix(geometry, workload))
                for geometry in {each.geometry for each in placements}
            }
            losses = np.append(losses, [_loss(each, worth[each.geometry]) for each in placements])
            self._known = workload, losses
        return losses


def _loss(placements: InstancePlacements, worth: MigWorth) -> float:
    profile = placements.geometry.profile(placements.profile)
    assert profile is not None  # a profile of this geometry
    after = np.array([placements.held | window(profile, start) for start in placements.starts])
    cost = float(worth.cost(np.full(len(after), placements.held), after).mean())
    # A report may have more instances than a GPU of this geometry can hold.
    instances = min(placements.instances, placements.geometry.grid)
    return round(cost + float(worth.company[instances]), DECIMALS)
