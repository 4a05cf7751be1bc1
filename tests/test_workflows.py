"""The workflows run pinned actions with few rights, and the make targets that they name exist."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pages import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Where a write is needed: packages for the image and the chart, contents for the page of the release, and the
# identity that signs.
RIGHTS = {
    ("release", "image"): {"contents": "read", "packages": "write", "id-token": "write"},
    ("release", "chart"): {"contents": "read", "packages": "write", "id-token": "write"},
    ("release", "pypi"): {"id-token": "write"},
    ("release", "release"): {"contents": "write", "id-token": "write"},
}
PINNED = re.compile(r"uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            yield path.stem, name, job


def scripts() -> str:
    return "\n".join(step.get("run", "") for _, _, job in jobs() for step in job["steps"])


def test_there_are_workflows() -> None:
    assert {path.stem for path in WORKFLOWS} == {"audit", "ci", "release"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_commit_with_its_version(path: Path) -> None:
    used = [line.strip().removeprefix("- ") for line in path.read_text().splitlines() if "uses:" in line]
    assert [line for line in used if not PINNED.match(line)] == []


def test_an_action_has_one_commit_everywhere() -> None:
    used = {
        line.split("uses: ")[1]
        for path in WORKFLOWS
        for line in path.read_text().splitlines()
        if "uses: " in line
    }
    assert len({line.split("@")[0] for line in used}) == len(used)


def test_a_job_has_the_rights_that_it_needs() -> None:
    for path in WORKFLOWS:
        assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    assert {
        (workflow, name): job["permissions"] for workflow, name, job in jobs() if "permissions" in job
    } == RIGHTS


def test_no_checkout_keeps_its_token_and_no_job_runs_forever() -> None:
    for _, _, job in jobs():
        assert job["timeout-minutes"] <= 45
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_no_script_has_an_expression_in_it() -> None:
    """Names of tags and branches reach a shell as variables only, so they are never read as commands."""
    assert "${{" not in scripts()


def test_every_make_target_and_file_that_a_script_names_is_there() -> None:
    targets = set(re.findall(r"^([.a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) | {".venv"}
    lines = re.findall(r"\bmake ((?:[.a-z][.a-z-]*\b *(?!=))+)", scripts())
    named = {word for line in lines for word in line.split()}
    assert {"image", "image-check", "bases", "check", "test"} <= named
    assert named <= targets
    for file in re.findall(r"--requirement (\S+)", scripts()):
        assert (ROOT / file).exists()


def test_a_release_signs_the_image_and_the_chart_by_digest() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    signed = re.findall(r"cosign sign --yes (?:--recursive )?\"([^@]+)@", text)
    assert signed == ["$IMAGE", "$CHARTS/gpu-scheduler"]


def test_a_released_chart_names_the_image_of_the_release_by_its_digest(tmp_path: Path) -> None:
    (step,) = (
        step["run"]
        for _, name, job in jobs()
        if name == "chart"
        for step in job["steps"]
        if "values.yaml" in step.get("run", "")
    )
    file = Path("manifests/charts/gpu-scheduler/values.yaml")
    before = (ROOT / file).read_text()
    (tmp_path / file.parent).mkdir(parents=True)
    (tmp_path / file).write_text(before)
    names = {"IMAGE": "ghcr.io/owner/project", "DIGEST": f"sha256:{'ab' * 32}"}
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step], cwd=tmp_path, env={**os.environ, **names}, check=True
    )
    expected = yaml.safe_load(before)
    expected["image"] |= {"repository": names["IMAGE"], "digest": names["DIGEST"]}
    assert yaml.safe_load((tmp_path / file).read_text()) == expected


def test_a_release_publishes_only_after_the_image_has_worked() -> None:
    needed = {name: job.get("needs", []) for workflow, name, job in jobs() if workflow == "release"}
    assert needed["image"] == "package"
    for later in ("chart", "pypi", "release"):
        assert {"package", "image"} <= {*needed[later]}
    steps = [
        step.get("run", "")
        for workflow, name, job in jobs()
        if (workflow, name) == ("release", "image")
        for step in job["steps"]
    ]
    runs = next(n for n, text in enumerate(steps) if "docker run" in text)
    pushes = next(n for n, text in enumerate(steps) if "--push" in text)
    signs = next(n for n, text in enumerate(steps) if "cosign sign" in text)
    assert runs < pushes < signs
