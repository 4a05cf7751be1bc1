"""The pages of the platforms: what each has to say, and the commands that no test of a cluster can run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.pages import ROOT, blocks, rows, section

FOLDER = ROOT / "docs" / "tasks" / "platforms"
PAGES = [page for page in sorted(FOLDER.glob("*.md")) if page.name != "README.md"]
COMPARED = rows((FOLDER / "README.md").read_text().split("## The GPU Operator")[0])
VERSION = re.compile(r"^VERSION=\$\(kubectl version \| (.*)\)$", re.MULTILINE)
# Tools of the platforms, and what others' installations are applied from.
OF_OTHERS = {
    *("aws", "az", "eksctl", "gcloud", "grep", "helm", "kind", "make", "nvkind", "oc", "sudo"),
    "kubectl apply -f https://github.com/kubernetes-sigs/",
}


def by_name(page: Path) -> str:
    return page.stem


def test_the_comparison_has_a_row_for_each_page() -> None:
    linked = [re.findall(r"\]\((\S+)\)", row[0]) for row in COMPARED]
    assert sorted(linked) == [[page.name] for page in PAGES]


def test_the_comparison_names_components_that_exist() -> None:
    named = {name for row in COMPARED for name in re.findall(r"`([^`]+)`", row[-1])}
    assert named == {name for name in named if (ROOT / "manifests" / "components" / name).is_dir()}
    assert "openshift" in named


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_a_page_names_the_components_of_its_row(page: Path) -> None:
    text = page.read_text()
    (row,) = (row for row in COMPARED if f"({page.name})" in row[0])
    assert set(re.findall(r"`([^`]+)`", row[-1])) <= set(re.findall(r"components/([a-z-]+)", text))


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_a_page_says_once_what_nobody_tried(page: Path) -> None:
    introduction = " ".join(page.read_text().split("\n## ")[0].split())
    assert "`sh` commands of this page" in introduction
    assert len(re.findall(r"not tried", introduction)) == 1


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_commands_that_no_test_runs_are_of_other_products(page: Path) -> None:
    for block in blocks(page.read_text(), "console"):
        lines = re.sub(r"\\\n", "", block).splitlines()
        commands = [line for line in lines if not re.match(r"[A-Z]+ |gpu-scheduler", line)]
        assert [line for line in commands if not line.startswith(tuple(OF_OTHERS))] == []


@pytest.mark.parametrize(
    ("server", "image"),
    [
        pytest.param("v1.33.5-eks-3025e55", "v1.33.5", id="EKS"),
        pytest.param("v1.34.1-gke.1829001", "v1.34.1", id="GKE"),
        pytest.param("v1.33.10", "v1.33.10", id="AKS, OpenShift, kind and kubeadm"),
        pytest.param("v1.36.3+k3s1", "v1.36.3", id="k3s"),
        pytest.param("v1.35.0-rc.1+rke2r1", "v1.35.0", id="a candidate of RKE2"),
    ],
)
def test_the_version_of_the_image_has_no_suffix(server: str, image: str) -> None:
    """By the same command on each page, from the output of kubectl."""
    (command,) = {found for page in PAGES for found in VERSION.findall(page.read_text())}
    output = f"Client Version: v1.30.1\nKustomize Version: v5.8.1\nServer Version: {server}\n"
    done = subprocess.run(["sh", "-c", command], input=output, capture_output=True, text=True, check=True)
    assert done.stdout == f"{image}\n"


def test_the_page_on_installing_leads_here() -> None:
    text = section((ROOT / "docs" / "tasks" / "install.md").read_text(), "## Platforms")
    assert "(platforms/README.md)" in text
