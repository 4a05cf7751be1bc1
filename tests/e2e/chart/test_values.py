"""Values of the chart: refused ones are named, and each of the others has its effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.chart.helm import NAMESPACE, HelmError, hooks, of_chart, rendered
from tests.manifests.objects import Json, containers, of_kind

SCHEDULER = "registry.k8s.io/kube-scheduler"


def refusal(tmp_path: Path, values: Json, version: str | None = None, namespace: str = NAMESPACE) -> str:
    with pytest.raises(HelmError) as refused:
        rendered(tmp_path, values, version, namespace)
    return str(refused.value)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        pytest.param({"replicas": 3}, "'replicas' not allowed", id="a value that does not exist"),
        pytest.param(
            {"scheduler": {"replica": 3}},
            "'/scheduler': additional properties 'replica'",
            id="a misspelt value",
        ),
        pytest.param({"agent": {"enabled": "yes"}}, "/agent/enabled", id="a text in place of a switch"),
        pytest.param({"scheduler": {"replicas": 0}}, "/scheduler/replicas", id="no replica"),
        pytest.param({"image": {"digest": "sha256:1"}}, "/image/digest", id="a digest that is none"),
        pytest.param(
            {"networkPolicy": {"apiServer": {"ports": []}}},
            "/networkPolicy/apiServer/ports",
            id="no port of the API server, which a policy would read as every port",
        ),
        pytest.param(
            {"networkPolicy": {"apiServer": {"cidrs": ["192.0.2.10"]}}},
            "/networkPolicy/apiServer/cidrs/0",
            id="an address without its length",
        ),
        pytest.param(
            {"extender": {"config": {"filter": {"maxCandidate": 5}}}},
            "'/extender/config/filter': additional properties 'maxCandidate'",
            id="a misspelt key of the extender's configuration",
        ),
        pytest.param(
            {"extender": {"config": {"score": {"strategy": "bestfit"}}}},
            "/extender/config/score/strategy",
            id="an unknown strategy",
        ),
        pytest.param(
            {"schedulerName": "default-scheduler"}, "/schedulerName", id="the name of the default scheduler"
        ),
        pytest.param(
            {"agent": {"nodes": [{"key": "gpu", "operator": "Equals"}]}},
            "/agent/nodes/0/operator",
            id="an operator that node affinity does not have",
        ),
        pytest.param(
            {"agent": {"namespace": {"name": "gpu-scheduler"}}},
            "agent.namespace.name",
            id="one namespace for all",
        ),
        pytest.param(
            {"agent": {"namespace": {"name": "kube-system"}}},
            "agent.namespace.name: not kube-system",
            id="agents in a namespace whose other pods would lose their traffic",
        ),
        pytest.param(
            {"agent": {"maxUnavailable": 0}}, "/agent/maxUnavailable", id="an update that replaces no agent"
        ),
        pytest.param(
            {"image": {"repository": "registry.example.com/a:0.1.0"}},
            "/image/repository",
            id="an image with its tag where only its name belongs",
        ),
        pytest.param(
            {"commonLabels": {"app.kubernetes.io/name": "gpu"}},
            "commonLabels: app.kubernetes.io/name belongs to the chart",
            id="a label by which the chart finds its own pods",
        ),
        pytest.param(
            {"shares": {"enabled": True}, "standalone": {"enabled": True}},
            "standalone.enabled: not with shares.enabled",
            id="shares with a standalone extender",
        ),
        pytest.param(
            {"shares": {"enabled": True}, "dra": {"enabled": True}},
            "dra.enabled: not with shares.enabled",
            id="shares with claims",
        ),
        pytest.param(
            {"extender": {"config": {"bind": {"enabled": True}}}},
            "extender.config.bind.enabled: set shares.enabled",
            id="an extender that binds without the rights of shares",
        ),
        pytest.param(
            {"extender": {"config": {"schedulerNames": ["other"]}}},
            "extender.config.schedulerNames: lacks",
            id="an extender that does not know its scheduler",
        ),
        pytest.param(
            {"shares": {"cdi": True}}, "shares.cdi: only with", id="devices of shares without shares"
        ),
        pytest.param(
            {"shares": {"enabled": True}, "scheduler": {"config": {"extenders": [{"filterVerb": "filter"}]}}},
            "scheduler.config: its extender needs bindVerb",
            id="shares that kube-scheduler would bind itself",
        ),
        pytest.param(
            {"scheduler": {"config": {"extenders": [{"bindVerb": "bind"}]}}},
            "scheduler.config: its extender needs bindVerb",
            id="a bind that the extender would refuse",
        ),
        pytest.param(
            {"scheduler": {"config": {"extenders": []}, "managedResources": ["example.com/gpu"]}},
            "scheduler.managedResources: not with",
            id="resources for a configuration that lists its own",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(tmp_path: Path, values: Json, named: str) -> None:
    assert named in refusal(tmp_path, values)


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_a_namespace_of_others_is_refused(tmp_path: Path, namespace: str) -> None:
    assert f"namespace {namespace}: the scheduler needs" in refusal(tmp_path, {}, namespace=namespace)


def test_reclaim_without_its_rights_is_refused(tmp_path: Path) -> None:
    values = {"extender": {"config": {"idle": {"reclaim": {"mode": "dry-run"}}}}}
    assert "idle.reclaim.mode: set idle.reclaim, which also grants the rights" in refusal(tmp_path, values)


def test_kubernetes_before_1_31_is_refused(tmp_path: Path) -> None:
    assert "requires kubeVersion: >=1.31.0-0" in refusal(tmp_path, {}, version="1.30.14")


@pytest.mark.parametrize(
    ("values", "version", "named"),
    [
        pytest.param(
            {"shares": {"enabled": True}},
            "1.35.4-eks-1a2b3c",
            "shares.enabled: memory shares need Kubernetes 1.36",
            id="shares",
        ),
        pytest.param({"dra": {"enabled": True}}, "1.33.13", "needs Kubernetes 1.34", id="claims"),
        pytest.param({"dra": {"deviceTaints": True}}, "1.33.13", "needs Kubernetes 1.34", id="taints"),
    ],
)
def test_what_the_cluster_is_too_old_for_is_refused(
    tmp_path: Path, values: Json, version: str, named: str
) -> None:
    assert named in refusal(tmp_path, values, version)


@pytest.mark.parametrize(
    ("cluster", "tag"),
    [
        pytest.param("v1.31.0", "v1.31.14", id="the newest known patch of an old minor release"),
        pytest.param(
            "v1.35.1", "v1.35.4", id="the newest known patch of its own minor release, not of the newest"
        ),
        pytest.param("v1.36.1-eks-1a2b3c", "v1.36.3", id="EKS"),
        pytest.param("v1.36.2-gke.1190000", "v1.36.3", id="GKE"),
        pytest.param("v1.36.4+k3s1", "v1.36.3", id="k3s with a patch that the chart does not know"),
        pytest.param("v1.34.100", "v1.34.4", id="a vendor's patch without an image of its own"),
        pytest.param(
            "v1.38.1-eks-1a2b3c", "v1.38.1", id="a minor release after the chart: the cluster's own"
        ),
        pytest.param("v1.38.0-rc.1", "v1.38.0-rc.1", id="a candidate after the chart"),
        pytest.param("1.35", "v1.35.4", id="a minor release without a patch, as some tools give it"),
        pytest.param("1.38", "v1.38.0", id="a minor release after the chart, without a patch"),
    ],
)
def test_kube_scheduler_follows_the_control_plane(tmp_path: Path, cluster: str, tag: str) -> None:
    images = {each["image"] for _, each in containers(rendered(tmp_path, {}, version=cluster))}
    assert f"{SCHEDULER}:{tag}" in images


def test_a_given_tag_is_taken_as_it_is(tmp_path: Path) -> None:
    objects = rendered(tmp_path, {"scheduler": {"image": {"tag": "v1.35.2"}}}, version="v1.36.3")
    assert f"{SCHEDULER}:v1.35.2" in {each["image"] for _, each in containers(objects)}


def annotated(tmp_path: Path, kind: str, values: Json) -> Json:
    found: Json = of_chart(rendered(tmp_path, values), kind)["spec"]["template"]["metadata"].get(
        "annotations", {}
    )
    return found


def test_a_change_of_either_configuration_rolls_the_pods(tmp_path: Path) -> None:
    plain = annotated(tmp_path, "Deployment", {})
    assert annotated(tmp_path, "Deployment", {"commonLabels": {"a": "b"}}) == plain
    for values in (
        {"extender": {"config": {"score": {"strategy": "binpack"}}}},
        {"scheduler": {"managedResources": ["example.com/gpu"]}},
    ):
        changed = annotated(tmp_path, "Deployment", values)
        assert changed.keys() == plain.keys()
        assert changed["checksum/config"] != plain["checksum/config"]


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
    hard = {each["metadata"]["namespace"]: each["spec"]["hard"]["pods"] for each in quotas}
    assert hard == {"gpu-scheduler": "14", "gpu-scheduler-agent": "20000"}


def test_without_agents_nothing_of_them_is_left(tmp_path: Path) -> None:
    objects = rendered(tmp_path, {"agent": {"enabled": False}})
    assert [each for each in objects if "gpu-scheduler-agent" in str(each["metadata"])] == []


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        pytest.param(
            {"namespace": {"create": False}}, ("Namespace", "gpu-scheduler"), id="a given namespace"
        ),
        pytest.param(
            {"agent": {"namespace": {"create": False}}},
            ("Namespace", "gpu-scheduler-agent"),
            id="a given namespace of agents",
        ),
        pytest.param(
            {"crds": {"install": False}},
            ("CustomResourceDefinition", "gpunodes.gpu.scheduler-ext.io"),
            id="definitions that something else installs",
        ),
        pytest.param(
            {"authenticationReader": False},
            ("RoleBinding", "gpu-scheduler-authentication-reader"),
            id="GKE Autopilot's kube-system",
        ),
        pytest.param({"criticalPodsQuota": False}, ("ResourceQuota", "critical-pods"), id="no quotas"),
        pytest.param(
            {"networkPolicy": {"enabled": False}}, ("NetworkPolicy", "nothing-else"), id="no policies"
        ),
    ],
)
def test_a_switch_leaves_an_object_out(tmp_path: Path, values: Json, gone: tuple[str, str]) -> None:
    def names(values: Json) -> list[tuple[str, str]]:
        return [(each["kind"], each["metadata"]["name"]) for each in rendered(tmp_path, values)]

    assert gone in names({})
    assert gone not in names(values)


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
