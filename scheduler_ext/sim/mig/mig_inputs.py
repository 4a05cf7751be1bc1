"""The simulated GPU, by name or from a file, and the frequencies of requests, by profile or by name."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.forecast.mig_value import shapes
from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_for, geometry_from_report
from scheduler_ext.core.gpu.mig_profile import MAX_GRID, Profile, parse_profile
from scheduler_ext.core.gpu.mig_tables import FALLBACK_PROFILES
from scheduler_ext.wire.files import MAX_CONFIGURATION_BYTES, read_file

# Letters of NVIDIA's own names, and nothing that a mix, a CSV or a terminal reads as more than a name.
_NAME = re.compile(r"[A-Za-z0-9.+_-]{1,63}")
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


class _ProfileEntry(Struct, rename="camel", forbid_unknown_fields=True):
    """A profile in a file; `size` and `starts` are in units of the grid."""

    name: str
    size: int
    starts: list[int]
    max_instances: int | None = None


class _GeometryFile(Struct, forbid_unknown_fields=True):
    grid: Annotated[int, Meta(ge=1, le=MAX_GRID)]
    profiles: list[_ProfileEntry]


def read_geometry(name_or_file: str) -> Geometry:
    """The geometry of a known GPU such as A100-80GB, else of a JSON file `{"grid":8,"profiles":[...]}`.
    Each profile has `name`, `size` and `starts` in units of the grid, and may have `maxInstances`:
    without it, or if it is null, as many as fit. Names are `profile_name`'s. Raises SimulationError
    naming the file and the field."""
    known = geometry_for(name_or_file)
    if known is not None:
        return known
    try:
        file = msgspec.json.decode(read_file(Path(name_or_file), MAX_CONFIGURATION_BYTES), type=_GeometryFile)
        profiles = [_profile(f"profiles[{i}]", entry) for i, entry in enumerate(file.profiles)]
        return geometry_from_report(file.grid, profiles, profile_name)
    except FileNotFoundError:
        known_gpus = ", ".join(FALLBACK_PROFILES)
        raise SimulationError(
            f"geometry {name_or_file}: no such file, and none of the known GPUs {known_gpus}"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        problem, _, field = text.partition(" - at `$.")
        where = f"{field.rstrip('`')}: " if field else ""
        raise SimulationError(f"geometry {name_or_file}: {where}{problem}") from None


def _profile(field: str, entry: _ProfileEntry) -> Profile:
    start, count = Counter(entry.starts).most_common(1)[0] if entry.starts else (0, 0)
    if count > 1:
        raise ValueError(f"{field}.starts: {start} is listed twice; list each once")
    # Without a cap of its own only the placements limit a profile.
    cap = max(len(entry.starts), 1) if entry.max_instances is None else entry.max_instances
    return Profile(entry.name, entry.size, tuple(entry.starts), cap, None)


def profile_name(text: str) -> str:
    """The canonical name of one of NVIDIA's profiles, and any other name as it is: a GPU may be made up.
    Raises ValueError for a name that a mix could not be written with."""
    try:
        return parse_profile(text)
    except ValueError:
        if _NAME.fullmatch(text):
            return text
        raise ValueError(
            f"{text[:80]!r} is no name of a profile; write one like 1g.10gb: 1 to 63 letters, digits, .+_-"
        ) from None


def parse_mix(text: str, geometry: Geometry) -> dict[str, float]:
    """The parts of each profile, summing to 1, of `7g.80gb=.3,1g.10gb=.7` or of a mix by name. Parts are
    relative: 3 and 7 are .3 and .7. `uniform` has all shapes of the geometry equally often; the other names
    are mixes of the six shapes of seven slices on eight units. Raises SimulationError for an unknown profile
    and for invalid parts."""
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
