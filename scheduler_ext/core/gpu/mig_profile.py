"""MIG profiles: their names, their resources, and one profile on one GPU. The same name means different
hardware on different GPUs (1g.10gb takes one placement unit on an A100 of 80 GB and two on one of 40 GB), so
size, starts and memory are in the Profile of a Geometry (mig_geometry.py)."""

import re
from dataclasses import dataclass

# Bounds the tables over all masks of a grid to 65,536; NVIDIA's largest grid has 12 units.
MAX_GRID = 16
MIG_PREFIX = "nvidia.com/mig-"

# [0-9] and not \d, which also takes digits of other scripts. Lengths are bounded so that int() stays cheap.
_SLICES = r"(?:(?P<compute>[1-9][0-9]{0,2})c\.)?(?P<gpu>[1-9][0-9]{0,2})g\.[1-9][0-9]{0,3}gb"
_PROFILE = re.compile(_SLICES + r"(?:[+.](?:me\.all|me|gfx)|-me)?")
_RESOURCE = re.compile(
    re.escape(MIG_PREFIX)
    + rf"(?P<profile>{_SLICES})(?P<suffix>\.me\.all|\.me|\.gfx|-me)?(?P<shared>\.shared)?"
)
_SUFFIX = re.compile(r"(?<=gb)[+-].*")
_GB = re.compile(r"g\.([0-9]{1,4})gb")
# A hostile name may be megabytes long; a message quotes only its beginning.
_QUOTED = 80


@dataclass(frozen=True, slots=True)
class Profile:
    """One MIG profile of one GPU model. `size` and `starts` are in placement units of the GPU's grid; an
    instance takes [start, start + size). `max_instances` limits the instances of this profile per GPU
    whatever the placements allow (+me: one). `memory_mib` is NVML's value; None if it was never measured."""

    name: str
    size: int
    starts: tuple[int, ...]
    max_instances: int
    memory_mib: int | None


def parse_profile(text: str) -> str:
    """Return the canonical name of a MIG profile: `1g.10gb`, `1g.24gb+me.all`, `2g.48gb-me`, `1c.3g.20gb`.
    Takes any letter case and the resource spelling of the suffix (`1g.10gb.me`), as product labels and
    reports write both. Raises ValueError for everything else, including a compute instance that is not
    smaller than its GPU instance: that one has no prefix (NVIDIA's go-nvlib names it so)."""
    name = text.lower()
    match = _PROFILE.fullmatch(name)
    if match is None or not _prefix_is_smaller(match):
        raise ValueError(
            f"MIG profile {text[:_QUOTED]!r} is not a profile name; write it like 1g.10gb, 1g.10gb+me,"
            " 1g.24gb+me.all, 1g.24gb+gfx, 2g.48gb-me or 1c.3g.20gb"
        )
    slices, unit, suffix = name.partition("gb")
    return slices + unit + suffix.replace(".", "+", 1) if suffix.startswith(".") else name


def profile_from_resource(resource: str) -> tuple[str, bool]:
    """Return the profile that a resource of the device plugin stands for, and whether it is shared:
    `nvidia.com/mig-1g.10gb.me.shared` is ("1g.10gb+me", True). Resource names are exact: the whole name must
    match, in lower case. Raises ValueError for any other name."""
    match = _RESOURCE.fullmatch(resource)
    if match is None or not _prefix_is_smaller(match):
        raise ValueError(
            f"resource {resource[:_QUOTED]!r} is not a MIG resource; write it like nvidia.com/mig-1g.10gb,"
            " nvidia.com/mig-1g.10gb.me or nvidia.com/mig-1g.10gb.shared"
        )
    return parse_profile(match["profile"] + (match["suffix"] or "")), match["shared"] is not None


def resource_from_profile(profile: str) -> str:
    """Return the resource name of the device plugin's mixed strategy for a profile; ValueError if it is none.
    The plugin writes a plus as a dot and keeps a minus (k8s-device-plugin, internal/rm/rm.go)."""
    return MIG_PREFIX + parse_profile(profile).replace("+", ".")


def without_suffix(profile: str) -> str:
    """Return the name of a profile without its media extensions: `1g.10gb` for `1g.10gb+me`."""
    return _SUFFIX.sub("", profile)


def least_memory_mib(name: str) -> int | None:
    """Return the memory that a profile, resource or model of MIG instances has at least, in MiB, by the GB in
    its name, which are rounded up (an H200's 18gb are 16384 MiB); None if it names none."""
    size = _GB.search(name.lower())
    return int(size[1]) * 1024 * 7 // 8 if size is not None else None


def window(profile: Profile, start: int) -> int:
    """Return the mask of units that an instance of `profile` at `start` takes."""
    return ((1 << profile.size) - 1) << start


def media_conflict(one: str, other: str) -> bool:
    """Say whether the media engines keep instances of two profiles, given by name, off the same GPU. A GPU
    has one OFA engine, which goes to a +me or +me.all instance. +me.all takes every decoder, encoder and JPEG
    engine too, so only -me profiles, which have none, fit beside it (engine columns of NVIDIA's MIG guide).
    All other combinations stay within the engines as soon as their placements fit."""
    if one.endswith("+me.all"):
        return not other.endswith("-me")
    if other.endswith("+me.all"):
        return not one.endswith("-me")
    return one.endswith("+me") and other.endswith("+me")


def _prefix_is_smaller(match: re.Match[str]) -> bool:
    return match["compute"] is None or int(match["compute"]) < int(match["gpu"])
