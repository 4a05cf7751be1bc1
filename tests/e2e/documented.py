"""A reader of the documentation who runs every command."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.ports import free_ports
from tests.e2e.cluster.whole import Cluster, running_cluster
from tests.pages import ROOT, blocks, section

PODS = "/api/v1/namespaces/default/pods"


class Reader:
    """Follows the instructions in a checkout, as the cluster's administrator."""

    def __init__(self, cluster: Cluster, checkout: Path, release: Path = ROOT) -> None:
        """`checkout` is an empty directory, `release` the tree that is checked out there."""
        self.cluster = cluster
        self.api = cluster.plane.api
        self.checkout = checkout
        # Placeholders on the pages for the reader's own names.
        self.names: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        # In the place of 8890, which another program of this machine may use.
        (self.forwarded_port,) = free_ports(1)
        self.check_out(release)
        for name in ("Makefile", "setup.cfg", "pyproject.toml", "constraints.txt"):
            shutil.copyfile(ROOT / name, checkout / name)
            # Older than any environment, so that `make` does not rebuild the one that runs the tests.
            os.utime(checkout / name, (0, 0))
        (checkout / ".venv").symlink_to(sys.prefix)
        (checkout / ".kube").mkdir()
        (checkout / ".kube" / "config").symlink_to(cluster.plane.kubeconfig("admin"))

    def check_out(self, release: Path) -> None:
        """Change to another release; files of the reader stay."""
        for name in ("manifests", "config"):
            shutil.rmtree(self.checkout / name, ignore_errors=True)
            shutil.copytree(release / name, self.checkout / name)

    def run(self, page: str, heading: str | None = None) -> None:
        """Run the shell blocks of a page or of one of its sections."""
        text = (ROOT / page).read_text()
        for block in blocks(section(text, heading) if heading else text, "sh"):
            self.run_block(block)

    def run_block(self, block: str) -> str:
        """The output; every command in it must succeed."""
        done = self._done(block, "-euo", "pipefail")
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        assert "Warning" not in done.stderr, done.stderr
        return done.stdout

    def look(self, block: str) -> None:
        """The same for commands that may find nothing, as those of runbooks do if nothing is wrong, or if a
        pod would not fit (3).
        """
        done = self._done(block, "-u")
        assert done.returncode in (0, 1, 3), f"{block}\n{done.stdout}\n{done.stderr}"
        assert not re.search(r"(?i)error|usage|not found|unknown|forbidden", done.stderr), done.stderr

    def follow(self, runbook: str) -> None:
        """Check what a runbook has checked."""
        for block in blocks((ROOT / runbook).read_text(), "sh"):
            self.look(block)

    def start(self, block: str) -> subprocess.Popen[str]:
        """A command that goes on until it is stopped."""
        return subprocess.Popen(
            ["bash", "-c", f"exec {self._named(block)}"],
            cwd=self.checkout,
            env=self._environment(),
            stdout=subprocess.PIPE,
            text=True,
        )

    def _done(self, block: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", *options, "-c", self._named(block)],
            cwd=self.checkout,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def _named(self, block: str) -> str:
        for placeholder, name in self.names.items():
            block = re.sub(rf"\b{placeholder}\b", name, block)
        forwarded = re.sub(r"(port-forward \S+) 8890\b", rf"\1 {self.forwarded_port}:8890", block)
        return forwarded.replace("127.0.0.1:8890", f"127.0.0.1:{self.forwarded_port}")

    def _environment(self) -> dict[str, str]:
        plane = self.cluster.plane
        path = f"{plane.binaries.kubectl.parent}:{sys.prefix}/bin:{os.environ['PATH']}"
        kubeconfig = str(plane.kubeconfig("admin"))
        return {"PATH": path, "HOME": str(self.checkout), "KUBECONFIG": kubeconfig, **self.environment}

    def write_pod(self, *changes: tuple[str, str]) -> None:
        """pod.yaml of the README, with some of its words replaced."""
        (pod,) = blocks(section((ROOT / "README.md").read_text(), "## Use it from a pod"), "yaml")
        for old, new in changes:
            pod = pod.replace(old, new)
        (self.checkout / "pod.yaml").write_text(pod)

    def node_of(self, pod: str) -> str:
        """Where a pod has gone."""
        spec = eventually(
            lambda: "nodeName" in (found := self.api.get(f"{PODS}/{pod}")["spec"]) and found, pod
        )
        return str(spec["nodeName"])


@contextlib.contextmanager
def running_reader(
    directories: pytest.TempPathFactory, *, installs: bool = True, **options: Any
) -> Iterator[Reader]:
    """A reader with a cluster, who has installed the product if `installs`; `options` are those of
    `running_cluster`.
    """
    with running_cluster(directories.mktemp("cluster"), **options) as cluster:
        reader = Reader(cluster, directories.mktemp("checkout"))
        if installs:
            reader.run("README.md", "## Install on a cluster")
        yield reader
