"""Values of the chart: each has its effect."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.e2e.chart.helm import hooks, of_chart, rendered
from tests.manifests.objects import Json, containers, of_kind

SCHEDULER = "registry.k8s.io/kube-scheduler"


@pytest.mark.parametrize(
    ("cluster", "tag"),
    [
        pytest.param("v1.31.0", "v1.31.14", id="the newest known patch of an old minor release"),
        pytest.param("v1.36.1-eks-1a2b3c", "v1.36.3", id="EKS"),
        pytest.param("v1.36.4+k3s1", "v1.36.3", id="k3s with a patch that the chart does not know"),
        pytest.param(
            "v1.38.1-eks-1a2b3c", "v1.38.1", id="a minor release after the chart: the cluster's own"
        ),
        pytest.param("v1.38.0-rc.1+rke2r1", "v1.38.0-rc.1", id="a candidate of RKE2"),
        pytest.param("v1.36.0-rc.1", "v1.36.0-rc.1", id="a candidate, which the release would be newer than"),
        pytest.param("1.35", "v1.35.4", id="a minor release without a patch, as some tools give it"),
    ],
)
def test_kube_scheduler_follows_the_control_plane(tmp_path: Path, cluster: str, tag: str) -> None:
    images = {each["image"] for _, each in containers(rendered(tmp_path, {}, version=cluster))}
    assert f"{SCHEDULER}:{tag}" in images


def test_a_given_tag_is_taken_as_it_is(tmp_path: Path) -> None:
    """Also where the registry has none of the cluster's release."""
    objects = rendered(tmp_path, {"scheduler": {"image": {"tag": "v1.35.2"}}}, version="v1.38.100")
    assert f"{SCHEDULER}:v1.35.2" in {each["image"] for _, each in containers(objects)}


def test_a_change_of_either_configuration_rolls_the_pods(tmp_path: Path) -> None:
    def checksum(values: Json) -> str:
        template = of_chart(rendered(tmp_path, values), "Deployment")["spec"]["template"]
        found: str = template["metadata"]["annotations"]["checksum/config"]
        return found

    plain = checksum({})
    assert checksum({"commonLabels": {"a": "b"}}) == plain
    assert checksum({"extender": {"config": {"score": {"strategy": "binpack"}}}}) != plain
    assert checksum({"scheduler": {"managedResources": ["example.com/gpu"]}}) != plain


def configuration(objects: list[Json], name: str) -> str:
    text: str = of_chart(objects, "ConfigMap")["data"][name]
    return text


def test_resources_of_ones_own_are_sent_too(tmp_path: Path) -> None:
    told = configuration(
        rendered(tmp_path, {"scheduler": {"managedResources": ["example.com/gpu"]}}), "kube-scheduler.yaml"
    )
    assert "- name: example.com/gpu" in told
    assert "- name: nvidia.com/gpu" in told


def test_a_configuration_of_kube_scheduler_replaces_the_shipped_one(tmp_path: Path) -> None:
    own = {"kind": "KubeSchedulerConfiguration", "parallelism": 4}
    told = configuration(rendered(tmp_path, {"scheduler": {"config": own}}), "kube-scheduler.yaml")
    assert told == "kind: KubeSchedulerConfiguration\nparallelism: 4\n"


def test_the_budget_leaves_a_single_replica_alone(tmp_path: Path) -> None:
    """It would block every drain."""
    assert of_kind(rendered(tmp_path, {"scheduler": {"replicas": 1}}), "PodDisruptionBudget") == []


def test_the_quota_grows_with_the_replicas(tmp_path: Path) -> None:
    quotas = of_kind(rendered(tmp_path, {"scheduler": {"replicas": 5}}), "ResourceQuota")
    assert "14" in [each["spec"]["hard"]["pods"] for each in quotas]


def test_without_agents_nothing_of_them_is_left(tmp_path: Path) -> None:
    objects = rendered(tmp_path, {"agent": {"enabled": False}})
    assert [each for each in objects if "gpu-scheduler-agent" in str(each["metadata"])] == []
    settings = yaml.safe_load(configuration(objects, "extender.yaml"))
    assert settings["inventory"] == {"labelNodes": False}


def test_switches_leave_objects_out(tmp_path: Path) -> None:
    """For what something else creates, and for platforms that refuse it."""

    def names(values: Json) -> set[tuple[str, str]]:
        return {(each["kind"], each["metadata"]["name"]) for each in rendered(tmp_path, values)}

    off = {
        "namespace": {"create": False},
        "agent": {"namespace": {"create": False}},
        "crds": {"install": False},
        "authenticationReader": False,
        "criticalPodsQuota": False,
        "networkPolicy": {"enabled": False},
    }
    gone = {
        ("Namespace", "gpu-scheduler"),
        ("Namespace", "gpu-scheduler-agent"),
        ("CustomResourceDefinition", "gpunodes.gpu.scheduler-ext.io"),
        ("RoleBinding", "gpu-scheduler-authentication-reader"),
        ("ResourceQuota", "critical-pods"),
        ("NetworkPolicy", "nothing-else"),
    }
    assert gone <= names({})
    assert not gone & names(off)


def test_definitions_outlive_the_release(tmp_path: Path) -> None:
    objects = rendered(tmp_path, {"shares": {"enabled": True}})
    definitions = of_kind(objects, "CustomResourceDefinition")
    assert len(definitions) == 2
    kept = {"helm.sh/resource-policy": "keep"}
    assert [each["metadata"]["annotations"] for each in definitions] == [kept, kept]


def test_pods_take_the_placement_of_the_values(tmp_path: Path) -> None:
    placement: Json = {
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "platform",
    }
    values = {
        "pods": {**placement, "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "imagePullSecrets": [{"name": "registry.example.com"}],
        "standalone": {"enabled": True},
    }
    objects = rendered(tmp_path, values)
    (test,) = of_kind(hooks(objects), "Pod")
    templates = [each["spec"]["template"] for each in of_kind(objects, "Deployment")]
    assert len(templates) == 2
    for spec in (test["spec"], *(each["spec"] for each in templates)):
        selector = {"kubernetes.io/os": "linux", "pool": "system"}
        assert {key: spec[key] for key in placement} == placement | {"nodeSelector": selector}
        assert spec["imagePullSecrets"] == values["imagePullSecrets"]
    for metadata in (each["metadata"] for each in templates):
        assert metadata["labels"]["a"] == "b"
        assert metadata["annotations"]["c"] == "d"


def test_agents_take_the_nodes_and_arguments_of_the_values(tmp_path: Path) -> None:
    agent = {
        "nodes": [{"key": "gpu", "operator": "Exists"}],
        "args": ["--interval=10s"],
        "nvmlLibrary": "/x/libnvidia-ml.so.1",
    }
    spec = of_chart(rendered(tmp_path, {"agent": agent}), "DaemonSet")["spec"]["template"]["spec"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    keys = [[each["key"] for each in term["matchExpressions"]] for term in required["nodeSelectorTerms"]]
    ours, upgrade = "gpu.scheduler-ext.io/agent", "nvidia.com/gpu-driver-upgrade-state"
    assert keys == [[ours, upgrade], ["gpu", ours, upgrade]]
    assert spec["containers"][0]["args"][-2:] == ["--nvml-library=/x/libnvidia-ml.so.1", "--interval=10s"]
