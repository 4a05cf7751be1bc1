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
# Where a write is needed: packages for the image and the chart, contents for the page of the release, the
# identity that signs, and an issue about newer bases.
RIGHTS = {
    ("release", "publish"): {"contents": "write", "packages": "write", "id-token": "write"},
    ("audit", "bases"): {"contents": "read", "issues": "write"},
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
    (step,) = (each["run"] for each in steps("release", "chart") if "values.yaml" in each.get("run", ""))
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


def steps(workflow: str, job: str) -> list[dict[str, Any]]:
    (found,) = (each["steps"] for name, title, each in jobs() if (name, title) == (workflow, job))
    return list(found)


def step(workflow: str, job: str, part: str) -> int:
    """The number of the only step that runs or uses this."""
    (found,) = (
        number
        for number, each in enumerate(steps(workflow, job))
        if part in each.get("run", each.get("uses", ""))
    )
    return found


def test_a_release_publishes_after_everything_was_built_and_a_reviewer_approved() -> None:
    """The other jobs have no right to publish."""
    release = {name: job for workflow, name, job in jobs() if workflow == "release"}
    assert [name for name, job in release.items() if "environment" in job] == ["publish"]
    assert [name for name, job in release.items() if "permissions" in job] == ["publish"]
    assert {*release["publish"]["needs"]} == release.keys() - {"publish"}
    assert "docker run" in scripts()


@pytest.mark.parametrize(
    "part", ["docker login", "--push", "helm push", "gh release", "cosign sign", "cosign attest"]
)
def test_a_job_that_builds_publishes_nothing(part: str) -> None:
    built = [each.get("run", "") for name in ("package", "image", "chart") for each in steps("release", name)]
    assert [text for text in built if part in text] == []


def test_nothing_has_a_public_name_before_pypi_has_the_files() -> None:
    """PyPI takes nothing back. Each step after it can be repeated, and the page of the release comes last."""
    parts = (
        "skopeo inspect",
        'oci-archive:image.tar "docker://$IMAGE@$DIGEST"',
        "--draft --verify-tag",
        "pypa/gh-action-pypi-publish",
        "https://pypi.org/pypi/scheduler-ext/",
        'copy --all --preserve-digests "docker://$IMAGE@$DIGEST"',
        "helm push",
        "--draft=false",
    )
    order = [step("release", "publish", part) for part in parts]
    assert order == sorted(order)
    assert order[-1] == len(steps("release", "publish")) - 1
    assert steps("release", "publish")[order[3]]["with"] == {"skip-existing": True}


@pytest.mark.parametrize(
    ("changed", "issue", "commands"),
    [
        pytest.param(False, "", [], id="nothing about the newest digests"),
        pytest.param(False, "7", ["issue close 7"], id="the issue is closed with the newest digests"),
        pytest.param(
            True, "", ["issue create --title Newer bases of the image"], id="an issue about newer ones"
        ),
        pytest.param(True, "7", ["issue edit 7 --body-file"], id="the same issue about still newer ones"),
    ],
)
def test_newer_bases_are_reported_and_fail_nothing(
    tmp_path: Path, changed: bool, issue: str, commands: list[str]
) -> None:
    checkout, log, summary = tmp_path / "checkout", tmp_path / "log", tmp_path / "summary"
    checkout.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(checkout)]
    dockerfile = checkout / "Dockerfile"
    dockerfile.write_text("# Bases\nARG RUN_BASE=base:1@sha256:1\nFROM ${RUN_BASE}\n")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "base"]):
        subprocess.run([*git, *command], check=True)
    if changed:
        dockerfile.write_text(dockerfile.read_text().replace("sha256:1", "sha256:2"))
    gh = tmp_path / "gh"
    gh.write_text('#!/bin/sh\ncase "$2" in list) echo "$ISSUE" ;; *) echo "$*" >> "$LOG" ;; esac\n')
    gh.chmod(0o755)
    names = {"ISSUE": issue, "LOG": str(log), "GITHUB_STEP_SUMMARY": str(summary)}
    script = steps("audit", "bases")[step("audit", "bases", "gh issue list")]["run"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, **names, "PATH": path}
    subprocess.run(["bash", "-e", "-c", script], cwd=checkout, env=environment, check=True)
    done = log.read_text().splitlines() if log.exists() else []
    assert [line.startswith(expected) for line, expected in zip(done, commands, strict=True)] == [True] * len(
        done
    )
    if changed:
        report = (checkout / "bases.md").read_text()
        assert "make bases" in report
        assert "-ARG RUN_BASE=base:1@sha256:1\n+ARG RUN_BASE=base:1@sha256:2\n" in report
        assert summary.read_text() == report
