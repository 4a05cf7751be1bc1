"""Placeholder pods on a real control plane: kube-scheduler never places one, and none stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.autoscaler_config.test_autoscalers_page import PAGE
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.documented import running_reader
from tests.e2e.installation import Installation
from tests.e2e.workload import Workload
from tests.kube_objects import gpu
from tests.pages import blocks, section

PLACEHOLDERS = "gpu-scheduler-placeholders"
JOBS = f"/apis/batch/v1/namespaces/{PLACEHOLDERS}/jobs"
PODS = f"/api/v1/namespaces/{PLACEHOLDERS}/pods"
WHOLE = "nvidia.com/gpu"
TYPE = "node.kubernetes.io/instance-type"
RESTRICTED: Json = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
# Sooner than on the page, and for a shorter time.
SWITCH, SOON = "placeholders: {enabled: true}", "placeholders: {enabled: true, after: 0s, ttl: 20s}"


@pytest.fixture(scope="module")
def scaling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Installed with the commands of the page."""
    with running_reader(tmp_path_factory, installs=False) as reader:
        (block,) = blocks(section(PAGE.read_text(), "## Placeholder pods"), "sh")
        assert SWITCH in block
        reader.run_block(block.replace(SWITCH, SOON))
        yield Installation(reader.cluster)


@pytest.fixture
def workload(scaling: Installation) -> Iterator[Workload]:
    with Workload(scaling) as workload:
        yield workload
    eventually(lambda: not scaling.api.items(JOBS), "no placeholder stays")


def in_use(workload: Workload) -> str:
    """A node whose memory strangers use."""
    used: Json = {"totalMiB": 81920, "usedMiB": 80000, "unaccountedMiB": 80000}
    name = workload.add_node("used", {WHOLE: "1"}, labels={TYPE: "one"})
    workload.report(name, [gpu(0, f"GPU-{name}-0", memory=used)])
    workload.publish()
    return name


def demanding(workload: Workload) -> Json:
    """A pod that kube-scheduler would place there, and that the extender refuses."""
    return workload.pod({WHOLE: "1"}, annotations={"gpu.scheduler-ext.io/min-free-memory": "40Gi"})


def is_unschedulable(pod: Json) -> bool:
    return any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions", ()))


def test_a_placeholder_waits_as_autoscalers_look_for_it_and_goes_with_its_pod(workload: Workload) -> None:
    used = in_use(workload)
    name = workload.create(demanding(workload))
    (job,) = eventually(lambda: workload.api.items(JOBS), "there is a placeholder")
    assert job["metadata"]["annotations"]["gpu.scheduler-ext.io/waiting-pod"].endswith(f"/{name}")

    def unschedulable() -> list[Json]:
        return [each for each in workload.api.items(PODS) if is_unschedulable(each)]

    (pod,) = eventually(unschedulable, "kube-scheduler has marked its pod")
    assert pod["spec"]["priority"] == -10
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    elsewhere = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [used]}
    assert elsewhere in term["matchExpressions"]
    assert workload.await_event(name, "GPUPlaceholderCreated")["type"] == "Normal"
    workload.remove(name)
    eventually(lambda: not workload.api.items(JOBS), "the placeholder is gone")
    eventually(lambda: not workload.api.items(PODS), "and so is its pod")


def test_no_node_takes_a_placeholder_and_it_goes_when_its_pod_is_placed(workload: Workload) -> None:
    in_use(workload)
    name = workload.create(demanding(workload))
    eventually(lambda: workload.api.items(PODS), "there is a placeholder")
    # What an autoscaler would bring.
    new = workload.add_node("new", {WHOLE: "1"}, labels={TYPE: "one"})
    workload.report(new, [gpu(0, f"GPU-{new}-0")])
    workload.publish()
    assert workload.await_node(name, 60) == new
    eventually(lambda: not workload.api.items(JOBS), "the placeholder is gone")


@pytest.mark.parametrize(
    ("spec", "security", "refusal"),
    [
        pytest.param({}, {"runAsNonRoot": False}, "violates PodSecurity", id="a pod that may run as root"),
        pytest.param(
            {"priorityClassName": "system-cluster-critical"}, {}, "other-priorities", id="a system priority"
        ),
        pytest.param({}, {}, "other-priorities", id="the default priority"),
    ],
)
def test_the_namespace_admits_little(workload: Workload, spec: Json, security: Json, refusal: str) -> None:
    """A stolen token of the extender could create a Job there, and none with other pods than placeholders."""
    api = workload.api.as_user(workload.installation.active().token("extender"))
    container: Json = {"name": "c", "image": "i", "securityContext": RESTRICTED | security}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}
    job = api.create(JOBS, {"metadata": {"name": "stolen"}, "spec": {"template": template}})
    events = f"/apis/events.k8s.io/v1/namespaces/{PLACEHOLDERS}/events"

    def is_refused() -> bool:
        found = [
            each for each in workload.api.items(events) if each["regarding"]["uid"] == job["metadata"]["uid"]
        ]
        return any(refusal in each["note"] for each in found)

    eventually(is_refused, "its pod is refused")
    assert workload.api.items(PODS) == []
    api.delete(f"{JOBS}/stolen")
