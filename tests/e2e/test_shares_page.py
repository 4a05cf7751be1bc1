"""What docs/shares.md and the samples show is taken by kubectl and by the API server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.e2e.installation import MANIFESTS
from tests.e2e.share_cluster import ShareCluster, own, variables
from tests.manifests.objects import Json, of_kind
from tests.manifests.policy import violations
from tests.pages import ROOT, blocks

PAGE = (ROOT / "docs" / "shares.md").read_text()
KUSTOMIZATIONS = [block for block in blocks(PAGE, "yaml") if "kind: Kustomization" in block]
POLICIES = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkout = tmp_path_factory.mktemp("checkout")
    for name in ("manifests", "config"):
        shutil.copytree(ROOT / name, checkout / name)
    (checkout / "my-cluster").mkdir()
    return checkout


def rendered(shares: ShareCluster, checkout: Path, kustomization: str) -> list[Json]:
    (checkout / "my-cluster" / "kustomization.yaml").write_text(kustomization)
    return list(yaml.safe_load_all(shares.plane.kubectl("kustomize", checkout / "my-cluster")))


def told(objects: list[Json], variable: str) -> dict[str, str]:
    """What the policies that have a variable say of it."""
    return {
        each["metadata"]["name"]: found["expression"]
        for each in of_kind(objects, *POLICIES)
        for found in each["spec"].get("variables", ())
        if found["name"] == variable
    }


BOTH = ("gpu-scheduler-shares", "gpu-scheduler-share-pods")


def test_the_component_is_what_the_overlay_has(shares: ShareCluster, checkout: Path) -> None:
    overlay = shares.plane.kubectl("kustomize", MANIFESTS / "overlays" / "shares")
    assert rendered(shares, checkout, KUSTOMIZATIONS[0]) == list(yaml.safe_load_all(overlay))


def test_another_name_for_the_scheduler(shares: ShareCluster, checkout: Path) -> None:
    objects = rendered(shares, checkout, KUSTOMIZATIONS[1])
    assert told(objects, "schedulers") == dict.fromkeys(BOTH, "['my-scheduler']")


def test_the_component_for_nvidias_plugin(shares: ShareCluster, checkout: Path) -> None:
    objects = rendered(shares, checkout, KUSTOMIZATIONS[2])
    assert told(objects, "byVariable") == dict.fromkeys(BOTH, "false")
    assert violations(objects) == []


def test_the_extender_by_itself_takes_its_rights_with_it(shares: ShareCluster, checkout: Path) -> None:
    components = KUSTOMIZATIONS[0] + "  - ../manifests/components/standalone-mtls\n"
    grants = of_kind(rendered(shares, checkout, components), "ClusterRoleBinding")
    holders = {each["roleRef"]["name"]: [holder["name"] for holder in each["subjects"]] for each in grants}
    assert holders["gpu-scheduler-shares"] == ["gpu-scheduler-extender"]


def test_the_pod_of_the_page(shares: ShareCluster) -> None:
    (pod,) = [block for block in blocks(PAGE, "yaml") if "kind: Pod" in block]
    made = shares.create(yaml.safe_load(pod))
    assert made["spec"]["schedulerName"] == "gpu-scheduler"
    assert variables(made) == {name: [own(name)] for name in ("main", "embed")}


def test_the_reservation_of_the_reference(shares: ShareCluster) -> None:
    (block,) = blocks((ROOT / "docs/reference/gpureservation.md").read_text(), "yaml")
    wanted = yaml.safe_load(block)
    path = f"/apis/{wanted['apiVersion']}/gpureservations?dryRun=All&fieldValidation=Strict"
    assert shares.extender.create(path, wanted)["spec"] == wanted["spec"]
