"""A real API server accepts every overlay without a warning, and the rights suffice."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.features import SINCE_1_36
from tests.e2e.installation import MANIFESTS, NAMESPACE, Installation

OVERLAYS = [
    pytest.param(path, id=path.name, marks=SINCE_1_36 if path.name == "shares" else ())
    for path in (MANIFESTS / "base", *sorted((MANIFESTS / "overlays").iterdir()))
]
# Other tests have written the inventory, which belongs to the administrator here.
DRY_RUN = (
    "apply",
    "--server-side",
    "--dry-run=server",
    "--validate=strict",
    "--warnings-as-errors",
    "--force-conflicts",
)

pytestmark = pytest.mark.usefixtures("installation")


def rendered(control_plane: ControlPlane, overlay: Path) -> list[Json]:
    return list(yaml.safe_load_all(control_plane.kubectl("kustomize", overlay)))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_is_taken_without_a_warning(control_plane: ControlPlane, overlay: Path) -> None:
    """The namespace with its PodSecurity level and the GPUNode definition are there already."""
    done = control_plane.try_kubectl(*DRY_RUN, "-k", overlay)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(rendered(control_plane, overlay))


def test_the_sample_of_an_autoscaler_is_taken(control_plane: ControlPlane) -> None:
    done = control_plane.try_kubectl(*DRY_RUN, "-f", MANIFESTS / "samples" / "scale-on-gpus.yaml")
    assert (done.returncode, done.stderr) == (0, "")


def test_pods_that_are_not_restricted_are_refused(control_plane: ControlPlane) -> None:
    done = control_plane.try_kubectl("-n", NAMESPACE, "run", "bare", "--image=bare", "--dry-run=server")
    assert 'violates PodSecurity "restricted' in done.stderr
    assert done.returncode != 0


def test_the_rights_suffice(installation: Installation) -> None:
    """A missing right is logged, and a pod that starts after its roles logs none."""
    installation.await_ready()
    before = {pod.name for pod in installation.pods()}
    installation.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{min(before)}", 0)
    (new,) = eventually(
        lambda: [pod for pod in installation.pods() if pod.name not in before and pod.ready],
        "another pod is ready",
        60.0,
    )
    logs = {name: container.log.read_text() for name, container in new.containers.items()}
    assert "Starting Kubernetes Scheduler" in logs["kube-scheduler"]
    refused = [
        line
        for log in logs.values()
        for line in log.splitlines()
        if "forbidden" in line.lower() or "cannot list" in line
    ]
    assert refused == []


def test_viewers_of_the_cluster_may_see_gpunodes(control_plane: ControlPlane) -> None:
    view = control_plane.api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/view")
    readable = [rule for rule in view["rules"] if "gpunodes" in rule.get("resources", ())]
    assert [rule["verbs"] for rule in readable] == [["get", "list", "watch"]]


def test_one_of_two_decides(installation: Installation) -> None:
    # Earlier tests may have ended one.
    installation.await_ready()
    assert len(installation.pods()) == 2
    active = installation.active()
    lease = installation.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gpu-scheduler")
    assert lease["spec"]["holderIdentity"].startswith(f"{active.name}_")
