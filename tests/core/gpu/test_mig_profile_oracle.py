"""MIG geometry against a plain-Python search over all placements, on random and on real grids."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_for, geometry_from_report
from scheduler_ext.core.gpu.mig_profile import Profile
from scheduler_ext.core.gpu.mig_tables import FALLBACK_PROFILES

Instance = tuple[str, int]

SUFFIXES = ("", "+me", "+me.all", "+gfx", "-me")
TABLES = tuple(FALLBACK_PROFILES)

# Decoders and OFA engines of each profile, as the MIG guide lists them; the full profile holds them all.
ENGINES = {
    "A30-24GB": {
        "1g.6gb": (0, 0),
        "1g.6gb+me": (1, 1),
        "2g.12gb": (2, 0),
        "2g.12gb+me": (2, 1),
        "4g.24gb": (4, 1),
    },
    "A100-80GB": {
        "1g.10gb": (0, 0),
        "1g.10gb+me": (1, 1),
        "1g.20gb": (1, 0),
        "2g.20gb": (1, 0),
        "3g.40gb": (2, 0),
        "4g.40gb": (2, 0),
        "7g.80gb": (5, 1),
    },
    "RTX-PRO-6000-96GB": {
        "1g.24gb": (1, 0),
        "1g.24gb+me": (1, 1),
        "1g.24gb+gfx": (1, 0),
        "1g.24gb+me.all": (4, 1),
        "1g.24gb-me": (0, 0),
        "2g.48gb": (2, 0),
        "2g.48gb+gfx": (2, 0),
        "2g.48gb+me.all": (4, 1),
        "2g.48gb-me": (0, 0),
        "4g.96gb": (4, 1),
        "4g.96gb+gfx": (4, 1),
    },
}


def known(table: str) -> Geometry:
    geometry = geometry_for(table)
    assert geometry is not None
    return geometry


def the(geometry: Geometry, name: str) -> Profile:
    return next(profile for profile in geometry.profiles if profile.name == name)


def units(geometry: Geometry, instances: Sequence[Instance]) -> set[int]:
    taken = [unit for name, start in instances for unit in range(start, start + the(geometry, name).size)]
    assert len(taken) == len(set(taken))
    return set(taken)


def may_join(geometry: Geometry, held: Sequence[Instance], name: str, start: int) -> bool:
    """The rules, one by one, as NVIDIA states them."""
    profile = the(geometry, name)
    names = [held_name for held_name, _ in held]
    owners = ("+me", "+me.all")
    if units(geometry, held) & set(range(start, start + profile.size)):
        return False
    if names.count(name) >= profile.max_instances:
        return False
    if name.endswith(owners) and any(other.endswith(owners) for other in names):
        return False
    if name.endswith(".all"):
        return all(other.endswith("-me") for other in names)
    return name.endswith("-me") or not any(other.endswith(".all") for other in names)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    """Grids up to 12 with up to four profiles, starts anywhere, often small with low caps."""
    grid = draw(st.integers(1, 12))
    profiles = []
    for i in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, grid) | st.integers(1, (grid + 2) // 3))
        starts = draw(st.sets(st.integers(0, grid - size), min_size=1))
        name = f"{i + 1}g.{size}gb{draw(st.sampled_from(SUFFIXES))}"
        profiles.append(Profile(name, size, tuple(starts), draw(st.integers(1, 3) | st.just(grid)), None))
    return geometry_from_report(grid, profiles)


any_geometry = st.one_of(st.sampled_from([known(table) for table in TABLES]), geometries())


@st.composite
def occupied(draw: st.DrawFn) -> tuple[Geometry, list[Instance]]:
    """A geometry and instances that its rules allow, grown one by one."""
    geometry = draw(any_geometry)
    held: list[Instance] = []
    for _ in range(draw(st.integers(0, 5))):
        choices = [
            (profile.name, start)
            for profile in geometry.profiles
            for start in profile.starts
            if may_join(geometry, held, profile.name, start)
        ]
        if choices:
            held.append(draw(st.sampled_from(choices)))
    return geometry, held


@st.composite
def masks(draw: st.DrawFn) -> tuple[Geometry, int]:
    geometry = draw(any_geometry)
    return geometry, draw(st.integers(0, (1 << geometry.grid) - 1))


@given(masks())
def test_placeable_counts_the_largest_set_of_free_starts(case: tuple[Geometry, int]) -> None:
    geometry, mask = case
    taken = {unit for unit in range(geometry.grid) if mask >> unit & 1}
    for profile, placeable in zip(geometry.profiles, geometry.placeable[mask], strict=True):
        windows = [set(range(start, start + profile.size)) for start in profile.starts]
        free = [window for window in windows if not window & taken]
        largest = max(
            count
            for count in range(len(free) + 1)
            for chosen in combinations(free, count)
            if len(set().union(*chosen)) == count * profile.size
        )
        assert placeable == min(largest, profile.max_instances), profile


@given(occupied())
def test_creatable_starts_are_those_that_every_rule_allows(case: tuple[Geometry, list[Instance]]) -> None:
    geometry, held = case
    for profile in geometry.profiles:
        allowed = tuple(s for s in profile.starts if may_join(geometry, held, profile.name, s))
        assert geometry.creatable_starts(held, profile.name) == allowed


@given(st.sampled_from(sorted(ENGINES)), st.data())
def test_the_media_rule_is_what_the_engine_counts_allow(table: str, data: st.DataObject) -> None:
    geometry, engines = known(table), ENGINES[table]
    assert set(engines) == {profile.name for profile in geometry.profiles}
    decoders, ofa = max(engines.values())
    held: list[Instance] = []
    for _ in range(data.draw(st.integers(0, 4))):
        choices = [(p.name, s) for p in geometry.profiles for s in geometry.creatable_starts(held, p.name)]
        if choices:
            held.append(data.draw(st.sampled_from(choices)))
    taken = units(geometry, held)
    for profile in geometry.profiles:
        used = [engines[name] for name, _ in [*held, (profile.name, 0)]]
        enough = sum(d for d, _ in used) <= decoders and sum(o for _, o in used) <= ofa
        below_cap = [name for name, _ in held].count(profile.name) < profile.max_instances
        for start in profile.starts:
            free = taken.isdisjoint(range(start, start + profile.size))
            creatable = start in geometry.creatable_starts(held, profile.name)
            assert creatable == (enough and below_cap and free), (held, profile.name, start)


@pytest.mark.parametrize("table", TABLES)
def test_placements_alone_keep_the_compute_slices_within_the_gpu(table: str) -> None:
    geometry = known(table)
    slices = {profile.name: int(profile.name.partition("g")[0]) for profile in geometry.profiles}
    most = {0: 0}
    for mask in range(1 << geometry.grid):
        if mask not in most:
            continue
        for profile in geometry.profiles:
            for start in profile.starts:
                window = ((1 << profile.size) - 1) << start
                if not mask & window:
                    total = most[mask] + slices[profile.name]
                    most[mask | window] = max(most.get(mask | window, 0), total)
    assert max(most.values()) == max(slices.values())
