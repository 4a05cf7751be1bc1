"""Geometries and mixes in the forms that users write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.gpu.mig_geometry import geometry_for
from scheduler_ext.core.gpu.mig_profile import Profile
from scheduler_ext.sim.mig.mig_inputs import MIX_NAMES, parse_mix, read_geometry
from tests.sim.small import refusal

A100 = read_geometry("A100-80GB")
GOOD = {"grid": 4, "profiles": [{"name": "1G.6gb", "size": 1, "starts": [1, 0], "maxInstances": 2}]}


def profile(name: str) -> dict[str, Any]:
    return {"name": name, "size": 1, "starts": [0]}


def test_a_known_gpu_by_name() -> None:
    assert read_geometry("A30-24GB") is geometry_for("A30-24GB")


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "geometry.json"
    path.write_text(json.dumps(GOOD))
    geometry = read_geometry(str(path))
    assert (geometry.grid, geometry.profiles) == (4, (Profile("1g.6gb", 1, (0, 1), 2, None),))


@pytest.mark.parametrize("name", ["7g", "big_one"])
def test_a_gpu_that_is_made_up_names_its_profiles_as_it_likes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "geometry.json"
    profiles = [profile(name) | {"size": 2, "starts": [0, 2]}, profile("1G.6GB")]
    path.write_text(json.dumps({"grid": 4, "profiles": profiles}))
    geometry = read_geometry(str(path))
    assert [profile.name for profile in geometry.profiles] == ["1g.6gb", name]
    assert parse_mix(f"{name}=1,1g.6gb=3", geometry) == {name: 0.25, "1g.6gb": 0.75}


@pytest.mark.parametrize("cap", ["", ', "maxInstances": null'])
def test_without_a_cap_the_placements_decide(tmp_path: Path, cap: str) -> None:
    path = tmp_path / "geometry.json"
    path.write_text(f'{{"grid": 4, "profiles": [{{"name": "1g.6gb", "size": 1, "starts": [0, 1, 3]{cap}}}]}}')
    assert read_geometry(str(path)).profiles[0].max_instances == 3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param("{", "truncated", id="no JSON"),
        pytest.param('{"grid": 8, "profiles": []}', "profiles: 0 entries", id="an empty list of profiles"),
        pytest.param('{"grid": 0, "profiles": []}', ": grid: Expected `int` >= 1", id="a grid of nothing"),
        pytest.param('{"grid": 8, "profile": []}', "unknown field `profile`", id="a slip in a field's name"),
        pytest.param(
            json.dumps({"grid": 4, "profiles": [profile(name) for name in ("1g.6gb", "1G.6GB")]}),
            "profiles: 1g.6gb is listed 2 times",
            id="two names of one profile",
        ),
    ],
)
def test_a_file_that_is_no_geometry(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    message = refusal(lambda: read_geometry(str(path)))
    assert str(path) in message
    assert says in message
    path.unlink()
    assert "A100-80GB" in refusal(lambda: read_geometry(str(path))), "which GPUs are known"
    assert refusal(lambda: read_geometry(str(tmp_path))) == f"geometry {tmp_path}: Is a directory"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        pytest.param({"size": 5}, "profiles[0].size: 5 is outside 1..4", id="larger than the grid"),
        pytest.param({"starts": [4]}, "profiles[0].starts: 4 with size 1 leaves", id="a start off the grid"),
        pytest.param({"name": ""}, "profiles[0].name: '' is no name", id="an empty name"),
        pytest.param({"name": "a=b"}, "profiles[0].name: 'a=b' is no name", id="a name that no mix can have"),
        pytest.param({"name": "1g\x1b[2J"}, "profiles[0].name: '1g\\x1b[2J' is", id="a name for a terminal"),
        pytest.param({"maxInstances": 0}, "profiles[0].maxInstances: 0", id="a cap of none"),
    ],
)
def test_a_profile_that_no_gpu_has(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({"grid": 4, "profiles": [GOOD["profiles"][0] | changed]}))  # type: ignore[index]
    assert says in refusal(lambda: read_geometry(str(path)))


@pytest.mark.parametrize(
    ("text", "mix"),
    [
        pytest.param("7g.80gb=.3,1g.10gb=.7", {"7g.80gb": 0.3, "1g.10gb": 0.7}, id="parts"),
        pytest.param("7g.80gb=3, 1G.10GB=1", {"7g.80gb": 0.75, "1g.10gb": 0.25}, id="parts are relative"),
        pytest.param("7g.80gb=1,1g.10gb=0", {"7g.80gb": 1.0}, id="what never comes"),
    ],
)
def test_a_mix(text: str, mix: dict[str, float]) -> None:
    assert parse_mix(text, A100) == pytest.approx(mix)


def test_every_named_mix_is_known_on_seven_slices_of_any_memory() -> None:
    for name in MIX_NAMES:
        for table in ("A100-80GB", "H200-141GB", "A100-40GB"):
            mix = parse_mix(name, read_geometry(table))
            assert len(mix) == 6
            assert sum(mix.values()) == pytest.approx(1)


def test_uniform_is_every_shape_of_any_geometry() -> None:
    mix = parse_mix("uniform", read_geometry("A30-24GB"))
    assert mix == pytest.approx({"1g.6gb": 1 / 3, "2g.12gb": 1 / 3, "4g.24gb": 1 / 3})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("bimodl", "neither PROFILE=PART nor one of uniform", id="a slip in a name"),
        pytest.param("1g.5gb=1", "1g.5gb is not a profile of this geometry", id="a profile of another GPU"),
        pytest.param("7g.80gb=-1,1g.10gb=2", "7g.80gb=-1: must be a number of at least 0", id="below 0"),
        pytest.param("7g.80gb=1e308,1g.10gb=1e308", "too large to be added", id="a sum beyond floats"),
        pytest.param("7g.80gb=0", "all parts are 0", id="nothing is asked"),
        pytest.param("7g.80gb=1,7G.80GB=2", "7g.80gb is listed twice", id="twice, however it is written"),
        pytest.param("7g.80gb=", "must be a number", id="no number"),
    ],
)
def test_a_mix_that_cannot_be_meant(text: str, says: str) -> None:
    assert says in refusal(lambda: parse_mix(text, A100))


def test_a_named_mix_needs_its_six_shapes() -> None:
    with pytest.raises(SimulationError, match="bimodal: is one of the six shapes"):
        parse_mix("bimodal", read_geometry("A30-24GB"))
