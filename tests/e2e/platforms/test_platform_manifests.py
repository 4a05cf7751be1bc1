"""The kustomizations of the pages in docs/tasks/platforms: accepted by an API server, within the policy, and
combined with every overlay.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.installation import NAMESPACE
from tests.e2e.platforms.kustomizations import PAGES, kustomizations
from tests.e2e.test_manifests import DRY_RUN, OVERLAYS
from tests.manifests.components import ASKED
from tests.manifests.objects import Json, entries, mapping, of_kind, pods
from tests.manifests.policy import violations
from tests.pages import ROOT

pytestmark = pytest.mark.usefixtures("installation")


KUSTOMIZATIONS = list(kustomizations())
# Each set of components once.
COMPONENTS = sorted({tuple(map(Path, each.get("components", ()))) for _, each in KUSTOMIZATIONS} - {()})
# Other pages add nothing to the base or an overlay, which test_manifests.py applies.
DIFFERENT = {
    yaml.safe_dump({**each, "images": None}): pytest.param(each, id=f"{page}-{number}")
    for number, (page, each) in enumerate(KUSTOMIZATIONS)
    if "components" in each or "patches" in each
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("manifests", "config"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "my-cluster").mkdir()
    return tmp_path


def rendered(control_plane: ControlPlane, checkout: Path, kustomization: Json) -> list[Json]:
    (checkout / "my-cluster" / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return list(yaml.safe_load_all(control_plane.kubectl("kustomize", checkout / "my-cluster")))


def on(overlay: Path, components: tuple[Path, ...] = ()) -> Json:
    """A kustomization of my-cluster."""
    folder = Path("../manifests") / overlay.relative_to(ROOT / "manifests")
    return {"resources": [str(folder)], "components": list(map(str, components))}


def test_every_component_for_platforms_is_on_a_page() -> None:
    used = {component.name for components in COMPONENTS for component in components}
    assert used == {
        "agent-gke",
        "agent-runtime-class",
        "agent-volume-mounts",
        "openshift",
        "without-kube-system",
    }
    assert {page for page, _ in KUSTOMIZATIONS} == {page.stem for page in PAGES.glob("*.md")}


@pytest.mark.parametrize("kustomization", DIFFERENT.values())
def test_is_taken_without_a_warning(control_plane: ControlPlane, checkout: Path, kustomization: Json) -> None:
    objects = rendered(control_plane, checkout, kustomization)
    done = control_plane.try_kubectl(*DRY_RUN, "-k", checkout / "my-cluster")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(objects)


@pytest.mark.parametrize(
    "components", COMPONENTS, ids=lambda paths: " and ".join(path.name for path in paths)
)
def test_goes_with_every_overlay(
    control_plane: ControlPlane, checkout: Path, components: tuple[Path, ...]
) -> None:
    """No more rights than the page names, whatever they are added to."""
    expected = set().union(*(ASKED[component.name] for component in components))
    found = {}
    for overlay in OVERLAYS:
        objects = rendered(control_plane, checkout, on(overlay, components))
        # The overlay without agents has none of their rights.
        agents = [each for each in objects if each["kind"] == "DaemonSet"]
        found[overlay.name] = set(violations(objects)) == {
            each for each in expected if agents or "DaemonSet" not in each
        }
    assert found == {overlay.name: True for overlay in OVERLAYS}


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_on_openshift_every_pod_has_a_constraint(
    control_plane: ControlPlane, checkout: Path, overlay: Path
) -> None:
    openshift = Path("../manifests/components/openshift")
    objects = rendered(control_plane, checkout, on(overlay, (openshift,)))
    granted = {
        (subject["namespace"], subject["name"])
        for binding in of_kind(objects, "RoleBinding")
        if binding["roleRef"]["name"].startswith("system:openshift:scc:")
        for subject in binding["subjects"]
        if subject["namespace"] == binding["metadata"]["namespace"]
    }
    running = {
        (each["metadata"]["namespace"], spec["serviceAccountName"])
        for each in of_kind(objects, "Deployment", "DaemonSet")
        for _, spec in pods([each])
    }
    # The demonstration's agent needs no root, but is not for OpenShift.
    assert running - granted <= {(NAMESPACE, "gpu-scheduler-fake-agent")}
    agents = [mapping(each, "spec", "template", "spec") for each in of_kind(objects, "DaemonSet")]
    assert all(mapping(spec, "securityContext", "seLinuxOptions") == {"type": "spc_t"} for spec in agents)


def test_on_openshift_names_resolve(control_plane: ControlPlane, checkout: Path) -> None:
    """kube-scheduler's policy has the port of the DNS pods, and PodSecurity levels stay as shipped."""
    openshift = Path("../manifests/components/openshift")
    objects = rendered(control_plane, checkout, on(ROOT / "manifests" / "base", (openshift,)))
    (policy,) = (each for each in of_kind(objects, "NetworkPolicy") if each["metadata"]["name"] == NAMESPACE)
    ports = {
        (port["port"], port["protocol"])
        for rule in entries(policy, "spec", "egress")
        for port in rule["ports"]
    }
    assert {(5353, "UDP"), (5353, "TCP"), (53, "UDP"), (443, "TCP")} <= ports
    for namespace in of_kind(objects, "Namespace"):
        labels = namespace["metadata"]["labels"]
        assert labels["security.openshift.io/scc.podSecurityLabelSync"] == "false"
        levels = {value for key, value in labels.items() if key.startswith("pod-security.kubernetes.io/")}
        assert levels == {"restricted" if namespace["metadata"]["name"] == NAMESPACE else "privileged"}


@pytest.mark.parametrize("overlay", ["base", "overlays/standalone-mtls"])
def test_without_kube_system_nothing_is_there(
    control_plane: ControlPlane, checkout: Path, overlay: str
) -> None:
    component = Path("../manifests/components/without-kube-system")
    before, after = (
        rendered(control_plane, checkout, on(ROOT / "manifests" / overlay, each))
        for each in ((), (component,))
    )
    gone = [each for each in before if each not in after]
    assert [each["metadata"]["name"] for each in gone] == ["gpu-scheduler-authentication-reader"]
    assert len(after) == len(before) - 1
    assert "kube-system" not in {each["metadata"].get("namespace") for each in after}


def test_the_directory_of_another_kubelet(control_plane: ControlPlane, checkout: Path) -> None:
    (kustomization,) = (each for page, each in KUSTOMIZATIONS if page == "README" and "patches" in each)
    (agent,) = of_kind(rendered(control_plane, checkout, kustomization), "DaemonSet")
    paths = [each["hostPath"] for each in agent["spec"]["template"]["spec"]["volumes"] if "hostPath" in each]
    assert paths == [{"path": "/var/lib/k0s/kubelet/pod-resources"}]
