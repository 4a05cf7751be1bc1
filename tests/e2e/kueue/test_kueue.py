"""The page on Kueue and its samples: accepted by Kueue's definitions, in a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.binaries import find_module
from tests.e2e.documented import Reader, running_reader
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.release

PAGE = (ROOT / "docs" / "tasks" / "kueue.md").read_text()
SAMPLES = ROOT / "manifests" / "samples" / "kueue"
DEFINITIONS = "config/components/crd/bases"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Has a cluster with the definitions of Kueue, and no Kueue."""
    definitions = find_module(Path(__file__).parent, "sigs.k8s.io/kueue") / DEFINITIONS
    with running_reader(tmp_path_factory, installs=False) as reader:
        reader.run_block(f"kubectl apply --server-side -f {definitions}")
        kinds = "clusterqueues,localqueues,resourceflavors,workloads"
        asked = reader.cluster.plane.try_kubectl
        eventually(lambda: asked("get", kinds).returncode == 0, "Kueue's objects are served")
        yield reader


def test_the_commands_of_the_page(reader: Reader) -> None:
    create, start = blocks(PAGE, "sh")
    assert "clusterqueue.kueue.x-k8s.io/gpus" in reader.run_block(create)
    told = reader.run_block(start)
    jobs = [file.stem for file in SAMPLES.glob("*.yaml") if file.stem != "queues"]
    assert [name for name in jobs if f"job.batch/{name} " not in told] == []
    # Kueue starts jobs, and it is not here.
    assert reader.api.items("/api/v1/namespaces/default/pods") == []
