"""The image answers kube-scheduler, and runs what the manifests run in it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import scheduler_ext
from tests.agent.nvml_mock.library import SONAME, build_library
from tests.image.builds import Buildah, Built, run
from tests.image.running import Container, Started
from tests.pages import ROOT
from tests.server.process.server_process import eventually

pytestmark = pytest.mark.image

INVENTORY = "/etc/gpu-scheduler/inventory.yaml"
LISTENERS = ("--listen=127.0.0.1:8888", "--health-listen=127.0.0.1:8889", "--inspect-listen=127.0.0.1:8890")
# A client is part of the image's Python, as curl is not.
POST = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1], sys.argv[2].encode(), {"Content-Type": "application/json"})
print(urllib.request.urlopen(request, timeout=30).read().decode())
"""


@pytest.fixture(scope="module")
def root(buildah: Buildah, image: Built) -> Path:
    """A file system of its own, because runc creates the places of mounts in it."""
    return buildah.mount(image.name)


@pytest.fixture
def container(image: Built, root: Path, tmp_path: Path) -> Container:
    return Container(image, root, tmp_path)


@pytest.fixture(scope="module")
def serving(image: Built, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    mounts = {INVENTORY: ROOT / "config" / "sample-inventory.yaml"}
    container = Container(image, root, tmp_path_factory.mktemp("serving"), mounts)
    with container.started("serve", f"--inventory={INVENTORY}", *LISTENERS) as started:
        eventually(lambda: "ready api=" in started.log.read_text() or started.process.poll() is not None)
        assert started.process.poll() is None, started.log.read_text()
        yield started


def post(serving: Started, verb: str, body: dict[str, Any]) -> Any:
    done = serving.execute("python3", "-c", POST, f"http://127.0.0.1:8888/{verb}", json.dumps(body))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pod(gpus: int) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}}
    containers = [{"name": "main", "image": "train:1", "resources": resources}]
    return {"metadata": {"name": "train", "namespace": "ml", "uid": "1"}, "spec": {"containers": containers}}


def test_it_answers_a_filter_request(serving: Started) -> None:
    reply = post(serving, "filter", {"Pod": pod(8), "NodeNames": ["h100-02", "t4-01"]})
    assert reply["NodeNames"] == ["h100-02"]
    assert reply["FailedNodes"] | reply["FailedAndUnresolvableNodes"] == {
        "t4-01": "Insufficient nvidia.com/gpu per device"
    }


def table(demo: str) -> str:
    """The decisions, without the addresses and paths around them."""
    return demo[demo.index("\nPOD ") :].partition("\n\n")[0]


def test_it_decides_as_the_checkout_does(container: Container) -> None:
    """The sample cluster with 15 pods, on the image's Python and its packages."""
    here = run([str(ROOT / ".venv" / "bin" / "scheduler-ext"), "demo", "--once", "--port", "0"])
    done = container.run("demo", "--once", "--port", "0")
    assert done.returncode == 0, done.stderr
    assert table(done.stdout) == table(here)


def test_the_kubectl_plugin_is_in_it(container: Container) -> None:
    done = container.run("--version", entrypoint=["kubectl-gpu_placement"])
    assert done.stdout.split()[-1] == scheduler_ext.__version__, done.stderr


@pytest.mark.parametrize(
    ("due_in_s", "status", "message"),
    [
        pytest.param(60, 0, "", id="a heartbeat that is not due yet"),
        pytest.param(-60, 1, "stuck", id="an overdue heartbeat"),
    ],
)
def test_the_probe_of_the_agent_runs_as_root_without_capabilities(
    container: Container, tmp_path: Path, due_in_s: float, status: int, message: str
) -> None:
    (tmp_path / "heartbeat").write_text(f"{time.monotonic() + due_in_s:<24.3f}")
    agent = Container(container.image, container.root, tmp_path / "bundle", {"/run/agent": tmp_path}, user=0)
    done = agent.run("-m", "scheduler_ext.agent.alive", "/run/agent/heartbeat", entrypoint=["python3"])
    assert done.returncode == status, done.stderr
    assert message in done.stderr


def test_the_agent_loads_the_library_that_the_nvidia_runtime_mounts(
    container: Container, tmp_path: Path
) -> None:
    """The runtime puts it into Debian's library folder, because the image has /etc/debian_version."""
    assert (container.root / "etc" / "debian_version").exists()
    library = build_library(tmp_path)
    mounts = {f"/usr/lib/x86_64-linux-gnu/{SONAME}": library}
    agent = Container(container.image, container.root, tmp_path / "bundle", mounts, user=0)
    loads = "import pynvml; pynvml._LoadNvmlLibrary(); print(pynvml.nvmlLib._name)"
    done = agent.run("-c", loads, entrypoint=["python3"])
    assert done.stdout.strip() == SONAME, done.stderr
