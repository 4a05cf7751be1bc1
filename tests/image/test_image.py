"""What is in the image. `make test-all` also builds it again, and for arm64."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import scheduler_ext
from tests.image.builds import EPOCH, REVISION, Buildah, Built, copy_of_the_checkout
from tests.pages import ROOT

pytestmark = pytest.mark.image

PACKAGES = "opt/scheduler-ext"
SBOM = "usr/share/sbom/scheduler-ext.cdx.json"
EM_AARCH64 = 183


@pytest.fixture(scope="module")
def added(buildah: Buildah, files: Path) -> list[Path]:
    """The files and folders that the base lacks."""
    base = buildah.mount("localhost/run-base:amd64")
    there = {path.relative_to(base) for path in base.rglob("*")}
    return [path for path in sorted(files.rglob("*")) if path.relative_to(files) not in there]


@pytest.mark.release
def test_two_builds_of_a_commit_have_one_digest(buildah: Buildah, image: Built, tmp_path: Path) -> None:
    """The second one comes from another folder, with other times, modes and umask."""
    again = buildah.image("second", source=copy_of_the_checkout(tmp_path), umask=0o077)
    assert again.digest == image.digest


def test_it_adds_the_packages_and_their_list_to_the_base(files: Path, added: list[Path]) -> None:
    names = {str(path.relative_to(files)) for path in added if not path.is_dir()}
    commands = {f"{PACKAGES}/bin/scheduler-ext", f"{PACKAGES}/bin/kubectl-gpu_placement"}
    assert {name for name in names if not name.startswith(f"{PACKAGES}/")} == {SBOM}
    assert {name for name in names if name.startswith(f"{PACKAGES}/bin/")} == commands


def test_the_added_files_belong_to_root_and_have_the_time_of_the_commit(added: list[Path]) -> None:
    def odd(path: Path) -> bool:
        status = path.lstat()
        readable = 0o555 if path.is_dir() else 0o444
        owned = (status.st_uid, status.st_gid) == (0, 0)
        return not owned or status.st_mtime != EPOCH or status.st_mode & (readable | 0o7022) != readable

    assert added
    assert [path for path in added if odd(path)] == []


def test_it_adds_no_pip_and_no_tests(added: list[Path]) -> None:
    folders = [path for path in added if path.is_dir()]
    unwanted = ("pip", "setuptools", "test", "tests", "bazel-project")
    assert [path for path in folders if path.name in unwanted] == []
    assert [path for path in added if path.suffix == ".whl"] == []


def test_bytecode_is_there_and_never_checks_its_source(files: Path) -> None:
    ours = files / PACKAGES / "scheduler_ext"
    sources = sorted(ours.rglob("*.py"))
    assert sources
    for source in sources:
        bytecode = source.parent / "__pycache__" / f"{source.stem}.cpython-313.pyc"
        # PEP 552: bit 0 for a hash of the source, bit 1 if it is compared.
        assert bytecode.read_bytes()[4:8] == b"\x01\0\0\0", source


def test_it_runs_as_an_unprivileged_user(image: Built) -> None:
    assert image.config["config"]["User"] == "65532:65532"
    assert image.config["config"]["Entrypoint"] == ["scheduler-ext"]
    assert not image.config["config"].get("Cmd")


def test_labels_name_the_version_and_the_commit(image: Built) -> None:
    created = datetime.fromtimestamp(EPOCH, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = image.config["config"]["Labels"]
    expected = {
        "title": "scheduler-ext",
        "licenses": "Apache-2.0",
        "version": scheduler_ext.__version__,
        "revision": REVISION,
        "created": created,
        "base.name": "localhost/run-base:amd64",
    }
    assert {key: labels[f"org.opencontainers.image.{key}"] for key in expected} == expected
    assert labels["org.opencontainers.image.description"]
    assert image.config["created"] == created


def test_the_list_names_every_package_with_version_and_licence(files: Path) -> None:
    """CycloneDX, as the schema of its release requires: the build validates it."""
    document = json.loads((files / SBOM).read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    components = {str(canonicalize_name(each["name"])): each for each in document["components"]}
    pinned = re.findall(
        r"^([\w.-]+)==([\w.]+)", (ROOT / "requirements" / "image.txt").read_text(), re.MULTILINE
    )
    expected = {str(canonicalize_name(name)): version for name, version in pinned}
    expected["scheduler-ext"] = scheduler_ext.__version__
    assert {name: each["version"] for name, each in components.items()} == expected
    for name, each in components.items():
        assert each["purl"].partition("?")[0] == f"pkg:pypi/{name}@{expected[name]}"
        assert any(licence.get("expression") or licence.get("license") for licence in each["licenses"]), name


def machine(library: Path) -> int:
    return int.from_bytes(library.read_bytes()[18:20], "little")


@pytest.mark.release
def test_it_is_built_for_arm64_too(buildah: Buildah, image: Built, files: Path) -> None:
    """Without emulation: pip chooses the wheels, and nothing runs in the image while it is built."""
    buildah.base("run", "arm64")
    arm = buildah.image("arm64", architecture="arm64")
    assert (image.config["architecture"], arm.config["architecture"]) == ("amd64", "arm64")
    there = buildah.mount(arm.name)
    libraries = [path for path in (there / PACKAGES).rglob("*.so*") if path.is_file()]
    assert {machine(library) for library in libraries} == {EM_AARCH64}
    assert {path.name for path in (there / PACKAGES).glob("*.dist-info")} == {
        path.name for path in (files / PACKAGES).glob("*.dist-info")
    }
