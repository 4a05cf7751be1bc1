"""Frequencies of requests by MIG profile, from text or by name."""

from __future__ import annotations

import math
from collections.abc import Mapping

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.forecast.mig_value import shapes
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.sim.mig.geometry import profile_name

UNIFORM = "uniform"

# The shapes of seven slices on eight units, as size and starts, in the order of the parts below.
_SEVEN_SLICES = (
    (8, (0,)),
    (4, (0,)),
    (4, (0, 4)),
    (2, (0, 2, 4)),
    (2, (0, 2, 4, 6)),
    (1, (0, 1, 2, 3, 4, 5, 6)),
)
_NAMED = {
    "skew-small": (0.05, 0.10, 0.10, 0.20, 0.25, 0.30),
    "skew-big": (0.30, 0.25, 0.20, 0.10, 0.10, 0.05),
    "bimodal": (0.30, 0.15, 0.05, 0.05, 0.15, 0.30),
}
MIX_NAMES = (UNIFORM, *_NAMED)


def parse_mix(text: str, geometry: Geometry) -> dict[str, float]:
    """The parts of each profile, summing to 1, of ``7g.80gb=.3,1g.10gb=.7`` or of a mix by name.

    Parts are relative: 3 and 7 are .3 and .7. ``uniform`` has all shapes of the geometry equally often; the
    other names are mixes of the six shapes of seven slices on eight units. Raises SimulationError for an
    unknown profile and for invalid parts.
    """
    if text == UNIFORM:
        return _normalised({geometry.profiles[index].name: 1.0 for index in shapes(geometry)})
    if text in _NAMED:
        return _named(text, geometry)
    mix: dict[str, float] = {}
    for item in text.split(","):
        name, part = _part(item.strip(), geometry)
        if name in mix:
            raise SimulationError(f"mix: {name} is listed twice; give each profile one part")
        mix[name] = part
    if not any(mix.values()):
        raise SimulationError(f"mix {text[:80]}: all parts are 0; give at least one profile a part above 0")
    if sum(mix.values()) == math.inf:
        raise SimulationError(f"mix {text[:80]}: the parts are too large to be added; write smaller ones")
    return _normalised(mix)


def _part(item: str, geometry: Geometry) -> tuple[str, float]:
    name, equals, number = item.partition("=")
    if not equals:
        raise SimulationError(
            f"mix {item[:80]!r}: neither PROFILE=PART nor one of {', '.join(MIX_NAMES)};"
            " write it like 7g.80gb=.3,1g.10gb=.7"
        )
    try:
        profile = geometry.profile(profile_name(name.strip()))
    except ValueError as error:
        raise SimulationError(f"mix: {error}") from None
    if profile is None:
        names = ", ".join(known.name for known in geometry.profiles)
        raise SimulationError(f"mix: {name[:80]} is not a profile of this geometry; they are {names}")
    try:
        part = float(number)
    except ValueError:
        part = math.nan
    if not 0 <= part < math.inf:
        raise SimulationError(f"mix: {profile.name}={number[:40]}: must be a number of at least 0")
    return profile.name, part


def _named(name: str, geometry: Geometry) -> dict[str, float]:
    profiles = (geometry.profiles[index] for index in shapes(geometry))
    by_shape = {(profile.size, profile.starts): profile.name for profile in profiles}
    if geometry.grid != 8 or not by_shape.keys() >= set(_SEVEN_SLICES):
        raise SimulationError(
            f"mix {name}: is one of the six shapes of seven slices on eight units, which this geometry lacks;"
            " write PROFILE=PART,..."
        )
    return {by_shape[shape]: part for shape, part in zip(_SEVEN_SLICES, _NAMED[name], strict=True)}


def _normalised(mix: Mapping[str, float]) -> dict[str, float]:
    total = sum(mix.values())
    return {name: part / total for name, part in mix.items() if part > 0}
