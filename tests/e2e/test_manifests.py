"""A real API server accepts every overlay without a warning, and each overlay follows the policy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.installation import MANIFESTS, NAMESPACE, Installation
from tests.manifests.objects import containers, of_kind
from tests.manifests.policy import violations

OVERLAYS = [MANIFESTS / "base", *sorted((MANIFESTS / "overlays").iterdir())]
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


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_is_taken_without_a_warning(control_plane: ControlPlane, overlay: Path) -> None:
    """The namespace with its PodSecurity level and the GPUNode definition are there already."""
    done = control_plane.try_kubectl(*DRY_RUN, "-k", overlay)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(rendered(control_plane, overlay))


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_keeps_the_policy(control_plane: ControlPlane, overlay: Path) -> None:
    assert violations(rendered(control_plane, overlay)) == []


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_monitoring_goes_with_it(control_plane: ControlPlane, overlay: Path, tmp_path: Path) -> None:
    """Nothing else changes; apart from the dashboard, additions are of kinds that are not installed here."""
    monitoring = os.path.relpath(MANIFESTS / "components" / "monitoring", tmp_path)
    kustomization = {"resources": [os.path.relpath(overlay, tmp_path)], "components": [monitoring]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    alone, together = rendered(control_plane, overlay), rendered(control_plane, tmp_path)
    added = [each for each in together if each not in alone]
    assert len(together) == len(alone) + len(added)
    assert sorted(each["kind"] for each in added) == ["ConfigMap", "PodMonitor", "PrometheusRule"]
    assert of_kind(added, "ConfigMap")[0]["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert violations(together) == []


def test_images_may_be_named_by_digest(control_plane: ControlPlane, tmp_path: Path) -> None:
    """As printed by `make digests`."""
    digest = f"sha256:{'ab' * 32}"
    names = {"scheduler-ext": "registry:5000/a", "registry.k8s.io/kube-scheduler": "registry.example.com/b"}
    images = [{"name": name, "newName": new, "digest": digest} for name, new in names.items()]
    kustomization = {"resources": [os.path.relpath(MANIFESTS / "base", tmp_path)], "images": images}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    objects = rendered(control_plane, tmp_path)
    assert {each["image"] for _, each in containers(objects)} == {f"{new}@{digest}" for new in names.values()}
    assert violations(objects) == []


def test_the_sample_of_an_autoscaler_is_taken(control_plane: ControlPlane) -> None:
    done = control_plane.try_kubectl(*DRY_RUN, "-f", MANIFESTS / "samples" / "scale-on-gpus.yaml")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"privileged": True}, "privileged", id="a privileged container"),
        pytest.param({"capabilities": {"add": ["SYS_ADMIN"]}}, "SYS_ADMIN", id="a capability"),
        pytest.param({"runAsNonRoot": False}, "runAsNonRoot", id="a container of root"),
        pytest.param({"seLinux": {}}, "seLinux: field not declared", id="a field that does not exist"),
    ],
)
def test_the_api_server_would_have_said_something(
    control_plane: ControlPlane, change: Json, said: str
) -> None:
    (deployment,) = of_kind(rendered(control_plane, MANIFESTS / "base"), "Deployment")
    (*_, extender) = deployment["spec"]["template"]["spec"]["containers"]
    extender["securityContext"] |= change
    done = control_plane.try_kubectl(*DRY_RUN, "-f", "-", stdin=yaml.safe_dump(deployment))
    assert done.returncode != 0
    assert said in done.stderr


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
