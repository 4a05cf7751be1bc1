"""The pages of the platforms: what each has to say, and the commands that no test of a cluster can run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.manifests.objects import Json
from tests.pages import ROOT, blocks, rows, section

FOLDER = ROOT / "docs" / "tasks" / "platforms"
PAGES = [page for page in sorted(FOLDER.glob("*.md")) if page.name != "README.md"]
COMPARED = rows((FOLDER / "README.md").read_text().split("## The GPU Operator")[0])
VERSION = re.compile(r"^VERSION=\$\(kubectl version \| .*\)\necho .*$", re.MULTILINE)
# Tools of the platforms, and what others' installations are applied from.
OF_OTHERS = {
    *("aws", "az", "eksctl", "gcloud", "grep", "helm", "kind", "make", "nvkind", "oc", "sudo"),
    "kubectl apply -f https://github.com/kubernetes-sigs/",
}


def components(row: list[str]) -> set[str]:
    """Those in a row of the comparison."""
    return set(re.findall(r"`([^`]+)`", row[4]))


def by_name(page: Path) -> str:
    return page.stem


def test_the_comparison_has_a_row_for_each_page() -> None:
    linked = [re.findall(r"\]\((\S+)\)", row[0]) for row in COMPARED]
    assert sorted(linked) == [[page.name] for page in PAGES]


def test_the_comparison_names_components_that_exist() -> None:
    named = {name for row in COMPARED for name in components(row)}
    assert named == {name for name in named if (ROOT / "manifests" / "components" / name).is_dir()}
    assert "openshift" in named


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_a_page_names_the_components_of_its_row(page: Path) -> None:
    text = page.read_text()
    (row,) = (row for row in COMPARED if f"({page.name})" in row[0])
    assert components(row) <= set(re.findall(r"components/([a-z-]+)", text))


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_a_page_has_the_values_of_its_row(page: Path) -> None:
    shown = {path for block in blocks(page.read_text(), "yaml") for path in paths(yaml.safe_load(block))}
    (row,) = (row for row in COMPARED if f"({page.name})" in row[0])
    named = {path for text in re.findall(r"`([^`]+)`", row[-1]) for path in paths(nested(text))}
    assert named <= shown
    assert bool(named) == bool(components(row))


def nested(text: str) -> Json:
    """A value by its path, such as `agent.mig: true`."""
    path, _, value = text.partition(": ")
    found: Json = yaml.safe_load(value)
    for name in reversed(path.split(".")):
        found = {name: found}
    return found


def paths(values: Json, above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from paths(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", str(value)


def test_what_a_page_applies_from_the_internet_has_a_release() -> None:
    addresses = [
        each for page in PAGES for each in re.findall(r"https://github.com/\S+\.yaml", page.read_text())
    ]
    assert len(addresses) == 2
    assert [each for each in addresses if not re.search(r"/v\d+\.\d+\.\d+/", each)] == []


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


def test_the_page_on_installing_leads_here() -> None:
    text = section((ROOT / "docs" / "tasks" / "install.md").read_text(), "## Platforms")
    assert "(platforms/README.md)" in text
