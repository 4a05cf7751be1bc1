"""The pages of the platforms: the commands that derive the version of kube-scheduler's image."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.pages import ROOT

PAGES = [page for page in (ROOT / "docs" / "tasks" / "platforms").glob("*.md") if page.name != "README.md"]
VERSION = re.compile(r"^VERSION=\$\(kubectl version \| .*\)\necho .*$", re.MULTILINE)


@pytest.mark.parametrize(
    ("server", "image"),
    [
        pytest.param("v1.33.5-eks-3025e55", "v1.33.5", id="EKS"),
        pytest.param("v1.34.1-gke.1829001", "v1.34.1", id="GKE"),
        pytest.param("v1.33.10", "v1.33.10", id="AKS, OpenShift, kind and kubeadm"),
        pytest.param("v1.36.3+k3s1", "v1.36.3", id="k3s"),
        pytest.param("v1.36.0-rc.1", "v1.36.0-rc.1", id="a candidate"),
        pytest.param("v1.35.0-rc.1+rke2r1", "v1.35.0-rc.1", id="a candidate of RKE2"),
        pytest.param("v1.37.0-alpha.2.101+0123abc", "v1.37.0-alpha.2", id="a build after an alpha"),
        pytest.param("v1.31.8+7a4b1c2", "v1.31.8", id="a distribution that adds its commit"),
    ],
)
def test_the_version_of_the_image_has_no_suffix_of_a_vendor(tmp_path: Path, server: str, image: str) -> None:
    assert derived(tmp_path, server).stdout == f"kube-scheduler {image}\n"


def test_a_release_without_an_image_stops_the_reader(tmp_path: Path) -> None:
    """AKS numbers patch releases of its own, from 100 on."""
    done = derived(tmp_path, "v1.33.100")
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.endswith("VERSION: set it to a tag in docs/reference/version-skew.md\n")


def derived(folder: Path, server: str) -> subprocess.CompletedProcess[str]:
    """The same commands of each page, with a control plane of this version."""
    (commands,) = {found for page in PAGES for found in VERSION.findall(page.read_text())}
    output = f"Client Version: v1.30.1\nKustomize Version: v5.8.1\nServer Version: {server}"
    (folder / "kubectl").write_text(f"#!/bin/sh\necho '{output}'\n")
    (folder / "kubectl").chmod(0o755)
    path = f"{folder}:/usr/bin:/bin"
    return subprocess.run(
        ["bash", "-c", commands], env={"PATH": path}, capture_output=True, text=True, check=False
    )
