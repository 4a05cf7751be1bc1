"""`make image`, `bases` and `digests`, with scripts in place of the builder and of the registries."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

import scheduler_ext
from tests.manifests.objects import containers
from tests.manifests.shipped import base
from tests.pages import ROOT

DOCKERFILE = ROOT / "Dockerfile"


def make(folder: Path, *arguments: str, scripts: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=folder,
        env={"PATH": f"{scripts}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def script(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize("builder", ["docker", "buildah"])
def test_the_image_has_the_time_and_the_name_of_the_commit(tmp_path: Path, builder: str) -> None:
    script(tmp_path, builder, 'printf "%s\\n" "$@"')
    done = make(ROOT, "-s", "image", f"BUILDER={builder}", "IMAGE=ours:1", scripts=tmp_path)
    options = done.stdout.splitlines()
    epoch = git("log", "-1", "--format=%ct")
    created = datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert {f"SOURCE_DATE_EPOCH={epoch}", f"CREATED={created}", f"VERSION={scheduler_ext.__version__}"} <= {
        *options
    }
    (revision,) = (option for option in options if option.startswith("REVISION="))
    assert revision.removesuffix("-dirty") == f"REVISION={git('rev-parse', 'HEAD')}"
    assert ("--timestamp" in options) == (builder == "buildah")
    # docker chooses it itself.
    assert ("--platform" in options) == (builder == "buildah")
    assert options[-3:] == ["--tag", "ours:1", "."]


@pytest.mark.parametrize("builder", ["docker", "buildah"])
def test_other_bases_platforms_and_options_reach_the_builder(tmp_path: Path, builder: str) -> None:
    script(tmp_path, builder, 'printf "%s\\n" "$@"')
    arguments = ("RUN_BASE=a@sha256:1", "BUILD_BASE=b@sha256:2", "PLATFORM=linux/arm64", "ARGS=--quiet")
    done = make(ROOT, "-s", "image", f"BUILDER={builder}", *arguments, scripts=tmp_path)
    options = done.stdout.splitlines()
    assert {"RUN_BASE=a@sha256:1", "BUILD_BASE=b@sha256:2", "--quiet"} <= {*options}
    assert options[options.index("--platform") + 1] == "linux/arm64"


def test_bases_writes_the_newest_digests_into_the_dockerfile(tmp_path: Path) -> None:
    for name in ("Makefile", "Dockerfile"):
        shutil.copy(ROOT / name, tmp_path)
    script(
        tmp_path,
        "docker",
        'case "$6" in *debian13:*) printf sha256:%064d 1 ;; *) printf sha256:%064d 2 ;; esac',
    )
    assert make(tmp_path, "bases", scripts=tmp_path).returncode == 0
    before, after = DOCKERFILE.read_text(), (tmp_path / "Dockerfile").read_text()
    digests = {
        role: after.partition(f"ARG {role}=")[2].split("@")[1][:71] for role in ("RUN_BASE", "BUILD_BASE")
    }
    assert digests == {"RUN_BASE": f"sha256:{1:064d}", "BUILD_BASE": f"sha256:{2:064d}"}
    assert re.sub("@sha256:.*", "", after) == re.sub("@sha256:.*", "", before)


def test_bases_changes_nothing_when_a_registry_does_not_answer(tmp_path: Path) -> None:
    for name in ("Makefile", "Dockerfile"):
        shutil.copy(ROOT / name, tmp_path)
    script(tmp_path, "docker", "exit 1")
    assert make(tmp_path, "bases", scripts=tmp_path).returncode != 0
    assert (tmp_path / "Dockerfile").read_text() == DOCKERFILE.read_text()


def test_digests_writes_what_kustomize_takes(tmp_path: Path) -> None:
    digest = f"sha256:{'ab' * 32}"
    script(
        tmp_path, "docker", f'[ "$6" != missing:1 ] || exit 1\necho "$6" >> {tmp_path}/asked\necho {digest}'
    )
    ours, theirs = "registry.example.com:5000/gpu/scheduler-ext", "registry.k8s.io/kube-scheduler"
    done = make(ROOT, "digests", f"IMAGE={ours}:0.1.0", scripts=tmp_path)
    (scheduler,) = {each["image"] for _, each in containers(base()) if "kube-scheduler" in each["image"]}
    assert done.stdout.splitlines() == [
        "images:",
        f"  - {{name: scheduler-ext, newName: {ours}, digest: {digest}}}",
        f"  - {{name: {theirs}, newName: {theirs}, digest: {digest}}}",
    ]
    assert (tmp_path / "asked").read_text().split() == [f"{ours}:0.1.0", scheduler]
    assert make(ROOT, "digests", "IMAGE=missing:1", scripts=tmp_path).returncode != 0
