"""The page on Kueue and its samples: accepted by Kueue's definitions, in a real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_ext.core.gpu.models import canonical_model
from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.binaries import find_module
from tests.e2e.cluster.whole import running_cluster
from tests.e2e.documented import Reader
from tests.e2e.test_manifests import DRY_RUN
from tests.kube_objects import SHARE
from tests.manifests.objects import Json, of_kind
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.release

PAGE = (ROOT / "docs" / "tasks" / "kueue.md").read_text()
SAMPLES = ROOT / "manifests" / "samples" / "kueue"
DEFINITIONS = "config/components/crd/bases"
QUEUE = "kueue.x-k8s.io/queue-name"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Has a cluster with the definitions of Kueue, and no Kueue."""
    definitions = find_module(Path(__file__).parent, "sigs.k8s.io/kueue") / DEFINITIONS
    with running_cluster(tmp_path_factory.mktemp("kueue")) as cluster:
        reader = Reader(cluster, tmp_path_factory.mktemp("checkout"))
        reader.run_block(f"kubectl apply --server-side -f {definitions}")
        kinds = "clusterqueues,localqueues,resourceflavors,workloads"
        asked = cluster.plane.try_kubectl
        eventually(lambda: asked("get", kinds).returncode == 0, "Kueue's objects are served")
        yield reader


def queues() -> list[Json]:
    return list(yaml.safe_load_all((SAMPLES / "queues.yaml").read_bytes()))


def jobs() -> dict[str, Json]:
    """The jobs of the samples, by the names of their files."""
    files = [file for file in SAMPLES.glob("*.yaml") if file.stem != "queues"]
    return {file.stem: yaml.safe_load(file.read_bytes()) for file in files}


def requested(job: Json) -> dict[str, str]:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    found: dict[str, str] = {**container["resources"].get("requests", {}), **container["resources"]["limits"]}
    return found


def quotas() -> Iterator[tuple[str, str, Any]]:
    """(flavor, resource, quota) of the ClusterQueue."""
    (queue,) = of_kind(queues(), "ClusterQueue")
    for group in queue["spec"]["resourceGroups"]:
        for flavor in group["flavors"]:
            for each in flavor["resources"]:
                yield flavor["name"], each["name"], each["nominalQuota"]


def test_the_commands_of_the_page(reader: Reader) -> None:
    create, start = blocks(PAGE, "sh")
    assert "clusterqueue.kueue.x-k8s.io/gpus" in reader.run_block(create)
    told = reader.run_block(start)
    assert [name for name in jobs() if f"job.batch/{name} " not in told] == []
    # Kueue starts jobs, and it is not here.
    assert reader.api.items("/api/v1/namespaces/default/pods") == []


@pytest.mark.parametrize("file", sorted(SAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_a_sample_is_taken_without_a_warning(reader: Reader, file: Path) -> None:
    done = reader.cluster.plane.try_kubectl(*DRY_RUN, "-f", file)
    assert (done.returncode, done.stderr) == (0, "")


def misspelt(queue: Json) -> None:
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["quota"] = 1


def uncovered(queue: Json) -> None:
    del queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(misspelt, "quota: field not declared in schema", id="a field that does not exist"),
        pytest.param(uncovered, "coveredResources", id="a flavor without a quota for a covered resource"),
    ],
)
def test_the_definitions_would_have_said_something(
    reader: Reader, change: Callable[[Json], None], said: str
) -> None:
    (queue,) = of_kind(queues(), "ClusterQueue")
    change(queue)
    done = reader.cluster.plane.try_kubectl(*DRY_RUN, "-f", "-", stdin=yaml.safe_dump(queue))
    assert done.returncode != 0
    assert said in done.stderr


def test_flavors_are_models_as_the_extender_names_them() -> None:
    flavors = {each["metadata"]["name"]: each.get("spec", {}) for each in of_kind(queues(), "ResourceFlavor")}
    assert flavors.keys() == {flavor for flavor, _, _ in quotas()}
    labels = {name: flavor.get("nodeLabels", {}) for name, flavor in flavors.items()}
    products = {
        name: found["nvidia.com/gpu.product"]
        for name, found in labels.items()
        if "nvidia.com/gpu.product" in found
    }
    assert {name: canonical_model(product).name.lower() for name, product in products.items()} == {
        name: name for name in products
    }
    assert labels["memory-shares"] == {"gpu.scheduler-ext.io/sharing": "memory"}


@pytest.mark.parametrize("name", sorted(jobs()))
def test_a_job_can_be_admitted_and_placed(name: str) -> None:
    """All of its resources have a quota, and its pods name this scheduler."""
    job = jobs()[name]
    (local,) = of_kind(queues(), "LocalQueue")
    assert job["metadata"]["labels"][QUEUE] == local["metadata"]["name"]
    assert job["metadata"]["namespace"] == local["metadata"]["namespace"]
    assert job["spec"]["suspend"] is True
    assert job["spec"]["template"]["spec"]["schedulerName"] == "gpu-scheduler"
    assert requested(job).keys() <= {resource for _, resource, _ in quotas()}


def test_the_page_shows_the_first_job() -> None:
    (shown,) = blocks(PAGE, "yaml")
    assert yaml.safe_load(shown) == jobs()["train"]


def test_the_page_has_the_quotas() -> None:
    told = {(flavor, resource): quota for flavor, resource, quota in quotas() if quota}
    assert f"| `a100-80gb` | {told['a100-80gb', 'nvidia.com/gpu']} GPUs |" in PAGE
    assert f"| `h100-80gb` | {told['h100-80gb', 'nvidia.com/gpu']} GPUs |" in PAGE
    mib = told["memory-shares", SHARE]
    assert f"| `memory-shares` | {mib:,} MiB ({mib // 1024} GiB) |" in PAGE
