"""Every installed package is pinned with the hashes of its files, and none is installed in another way."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.manifests.objects import containers
from tests.manifests.shipped import base
from tests.pages import ROOT

ALL = ROOT / "constraints.txt"
BASE = ROOT / "requirements" / "base.txt"
IMAGE = ROOT / "requirements" / "image.txt"
GO = ROOT / "requirements" / "go.txt"
BUILD = ROOT / "requirements" / "build.txt"
AUDIT = ROOT / "requirements" / "audit.txt"
OURS = "scheduler-ext"
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


def locked(file: Path) -> list[tuple[Requirement, frozenset[str]]]:
    """(requirement, hashes) of every line; raises AssertionError for a line that is neither."""
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        written, *hashes = line.split("--hash=")
        assert " ".join(_HASH.findall(line)) == " ".join(each.strip() for each in hashes), line
        found.append((Requirement(written.strip()), frozenset(each.strip() for each in hashes)))
    return found


@pytest.mark.parametrize("file", [ALL, BASE, IMAGE, GO, BUILD, AUDIT], ids=lambda path: path.name)
def test_every_release_is_exact_and_has_hashes(file: Path) -> None:
    for requirement, hashes in locked(file):
        assert [each.operator for each in requirement.specifier] == ["=="], requirement
        assert hashes, requirement


@pytest.mark.parametrize("file", [BASE, IMAGE], ids=lambda path: path.name)
def test_a_part_is_the_same_as_in_the_whole(file: Path) -> None:
    whole = {str(requirement): hashes for requirement, hashes in locked(ALL)}
    for requirement, hashes in locked(file):
        assert whole[str(requirement)] == hashes


def test_the_image_is_built_with_the_setuptools_that_builds_the_wheel() -> None:
    for file in (ALL, BUILD):
        assert "setuptools" in here(file)
    assert here(BUILD)["setuptools"] == here(ALL)["setuptools"]


def here(file: Path) -> dict[str, str]:
    """Name to version of every package that a file installs on this Python."""
    return {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==")
        for requirement, _ in locked(file)
        if requirement.marker is None or requirement.marker.evaluate()
    }


def needed(name: str, extras: frozenset[str]) -> set[str]:
    """A distribution with all its requirements on this Python, as installed here."""
    seen: set[tuple[str, str]] = set()
    todo = [(canonicalize_name(name), extra) for extra in ("", *extras)]
    while todo:
        if (at := todo.pop()) in seen:
            continue
        seen.add(at)
        for line in distribution(at[0]).requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": at[1]}):
                todo += [(canonicalize_name(requirement.name), extra) for extra in ("", *requirement.extras)]
    return {each for each, _ in seen} - {OURS}


@pytest.mark.parametrize(
    ("file", "extras", "further"),
    [
        pytest.param(ALL, {"dev"}, {"setuptools"}, id="the environment of tests"),
        pytest.param(BASE, set(), set(), id="the wheel"),
        pytest.param(IMAGE, {"agent"}, set(), id="the image"),
    ],
)
def test_a_file_has_the_needed_parts_and_no_more(file: Path, extras: set[str], further: set[str]) -> None:
    assert here(file).keys() == needed(OURS, frozenset(extras)) | further


def test_the_tests_run_with_the_pinned_releases() -> None:
    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    pinned = here(ALL)
    assert {name: installed(name) for name in pinned} == pinned


def test_releases_are_there_for_every_python() -> None:
    """For a package with a marker on Python's version, the lines together cover every version."""
    for minor in range(11, 15):
        for patch in (0, 4, 5, 9):
            environment = {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.{patch}"}
            names = [
                requirement.name
                for requirement, _ in locked(ALL)
                if requirement.marker is None or requirement.marker.evaluate(environment)
            ]
            assert len(names) == len(set(names))
            assert {"numpy", "soupsieve", "typing-extensions"} <= set(names)


INSTALLERS = ["Makefile", "Dockerfile", ".ci/run", "manifests/krew/build.py"]
PIP_ITSELF = "install --quiet pip"


@pytest.mark.parametrize("name", INSTALLERS)
def test_nothing_is_installed_without_hashes(name: str) -> None:
    """Except pip itself, which some Pythons lack, and this project's own build."""
    text = re.sub(r"^#.*\n", "", (ROOT / name).read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    commands = [line for line in text.splitlines() if re.search(r"\bpip\b.*\binstall\b", line)]
    assert any("--no-deps" in command for command in commands)
    for command in commands:
        exact = "--no-deps" in command and ("--requirement" not in command or "--require-hashes" in command)
        assert exact or command.endswith(PIP_ITSELF) or "uv is missing" in command, command


def test_the_command_for_digests_writes_what_kustomize_takes(tmp_path: Path) -> None:
    """docker is a script here, without access to a registry."""
    digest = f"sha256:{'ab' * 32}"
    docker = tmp_path / "docker"
    docker.write_text(
        "#!/bin/sh\n[ \"$1 $2 $3\" = 'buildx imagetools inspect' ] || exit 1\n"
        f'[ "$6" != missing:1 ] || exit 1\necho "$6" >> {tmp_path}/asked\necho {digest}\n'
    )
    docker.chmod(0o755)

    def digests(image: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", "--no-print-directory", "digests", f"IMAGE={image}"],
            cwd=ROOT,
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    ours, theirs = "registry.example.com:5000/gpu/scheduler-ext", "registry.k8s.io/kube-scheduler"
    done = digests(f"{ours}:0.1.0")
    (scheduler,) = {each["image"] for _, each in containers(base()) if "kube-scheduler" in each["image"]}
    assert done.stdout.splitlines() == [
        "images:",
        f"  - {{name: scheduler-ext, newName: {ours}, digest: {digest}}}",
        f"  - {{name: {theirs}, newName: {theirs}, digest: {digest}}}",
    ]
    asked = (tmp_path / "asked").read_text().split()
    assert asked == [f"{ours}:0.1.0", scheduler]
    assert digests("missing:1").returncode != 0
