"""MIG profile names, resource names and profile memory, as NVIDIA's components write them."""

from __future__ import annotations

import re

import pytest

from scheduler_ext.core.gpu.mig_profile import parse_profile, profile_from_resource, resource_from_profile
from scheduler_ext.core.gpu.mig_tables import FALLBACK_PROFILES
from scheduler_ext.core.gpu.model_table import MODEL_ROWS


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("1g.10gb", "1g.10gb", id="a plain profile"),
        pytest.param("1G.10GB", "1g.10gb", id="product labels write capitals"),
        pytest.param("1g.10gb+me", "1g.10gb+me", id="media engines"),
        pytest.param("1g.24gb.me.all", "1g.24gb+me.all", id="all media engines as a resource writes them"),
        pytest.param("1g.24gb+me.all", "1g.24gb+me.all", id="all media engines keep their inner dot"),
        pytest.param("1c.3g.20gb", "1c.3g.20gb", id="a smaller compute instance"),
    ],
)
def test_a_profile_has_one_canonical_name(text: str, name: str) -> None:
    assert parse_profile(text) == name
    assert parse_profile(parse_profile(text)) == name


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("1g", id="no memory"),
        pytest.param("0g.10gb", id="no slice"),
        pytest.param("1g.10gb.shared", id="shared belongs to the resource"),
        pytest.param("1g.10gb.-me", id="a dot before the minus"),
        pytest.param("1g.10gb+me.some", id="an unknown suffix"),
        pytest.param("3c.3g.20gb", id="a compute instance as large as its GPU instance has no prefix"),
        pytest.param("1g.٣gb", id="digits of another script"),
        pytest.param("1g." + "9" * 10_000 + "gb", id="an absurd number"),
    ],
)
def test_an_invalid_profile_is_refused_with_a_short_message(text: str) -> None:
    with pytest.raises(ValueError, match="is not a profile name; write it like") as refused:
        parse_profile(text)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("resource", "profile", "shared"),
    [
        pytest.param("nvidia.com/mig-1g.10gb", "1g.10gb", False, id="a plain profile"),
        pytest.param("nvidia.com/mig-1g.10gb.shared", "1g.10gb", True, id="time-sliced replicas"),
        pytest.param(
            "nvidia.com/mig-1g.10gb.me.shared", "1g.10gb+me", True, id="replicas with media engines"
        ),
        pytest.param("nvidia.com/mig-1g.24gb.me.all", "1g.24gb+me.all", False, id="all media engines"),
        pytest.param("nvidia.com/mig-1g.24gb-me", "1g.24gb-me", False, id="the minus stays"),
        pytest.param("nvidia.com/mig-1c.3g.20gb", "1c.3g.20gb", False, id="a smaller compute instance"),
    ],
)
def test_resources_and_profiles_translate_both_ways(resource: str, profile: str, shared: bool) -> None:
    assert profile_from_resource(resource) == (profile, shared)
    assert resource_from_profile(profile) == resource.removesuffix(".shared")


@pytest.mark.parametrize(
    "resource",
    [
        pytest.param("nvidia.com/gpu", id="a whole GPU"),
        pytest.param("nvidia.com/mig-1g.10gb.foo", id="an unknown suffix"),
        pytest.param("nvidia.com/mig-1g.10gb+me", id="a plus is not legal in a resource name"),
        pytest.param("nvidia.com/mig-1G.10GB", id="resource names are lower case"),
        pytest.param("nvidiaxcom/mig-1g.10gb", id="the dot is a dot"),
        pytest.param("nvidia.com/mig-3c.3g.20gb", id="a compute instance as large as its GPU instance"),
        pytest.param("nvidia.com/mig-" + "1" * 1_000_000, id="a megabyte of name"),
    ],
)
def test_an_invalid_mig_resource_is_refused_with_a_short_message(resource: str) -> None:
    with pytest.raises(ValueError, match="is not a MIG resource; write it like") as refused:
        profile_from_resource(resource)
    assert len(str(refused.value)) < 400


def test_every_profile_of_the_tables_has_a_resource_of_its_own() -> None:
    names = {profile.name for _, profiles in FALLBACK_PROFILES.values() for profile in profiles}
    assert {profile_from_resource(resource_from_profile(name)) for name in names} == {
        (name, False) for name in names
    }


def named_gb(mig_mib: int, total_mib: int) -> int:
    """The GB in a profile's name, as in go-nvlib: whole eighths of the GPU, rounded up, of its whole GiB,
    rounded up; halves away from zero, unlike round().
    """
    eighths, total_gib = -(-8 * mig_mib // total_mib), -(-total_mib // 1024)
    return (eighths * total_gib + 4) // 8


def test_known_memory_recomputes_to_the_gb_of_the_name() -> None:
    total_mib = {row.mig_table: row.memory_mib or 0 for row in MODEL_ROWS}
    recomputed = 0
    for table, (_, profiles) in FALLBACK_PROFILES.items():
        for profile in profiles:
            if profile.memory_mib is None:
                continue
            gb = named_gb(profile.memory_mib, total_mib[table])
            assert re.match(rf"\dg\.{gb}gb", profile.name), (table, profile, gb)
            recomputed += 1
    assert recomputed == 51
