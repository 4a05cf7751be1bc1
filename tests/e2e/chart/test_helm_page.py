"""The chart in a real cluster: the commands of its page."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

import pytest

from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.agents.gpunode_api import gpu_node
from tests.e2e.chart.helm import NAMESPACE
from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.binaries import find_helm
from tests.e2e.documented import Reader, running_reader
from tests.e2e.installation import Installation
from tests.e2e.workload import Workload
from tests.kube_objects import GFD_H100
from tests.pages import ROOT, blocks, section

pytestmark = pytest.mark.release

PAGE = (ROOT / "docs" / "tasks" / "helm.md").read_text()
CHART = "manifests/charts/gpu-scheduler"
UPGRADE = f"helm upgrade gpu-scheduler {CHART} --values gpu-scheduler.yaml --namespace {NAMESPACE}"
STANDALONE = (ROOT / "docs" / "tasks" / "standalone.md").read_text()
CALLS = "gpu_extender_request_duration_seconds_count"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KINDS = ("gpunodes", "gpureservations")
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


class Story:
    """The reader of the page."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.installation = Installation(reader.cluster)

    def run(self, heading: str) -> str:
        """The output of a section's commands."""
        return "\n".join(self.reader.run_block(block) for block in blocks(section(PAGE, heading), "sh"))

    def objects(self) -> set[str]:
        """All objects with the label of the installation, of every kind, without those that controllers
        made.
        """
        kubectl = self.reader.cluster.plane.kubectl
        kinds = kubectl("api-resources", "--verbs=list", "-o", "name").split()
        chosen = ",".join(each for each in kinds if not each.startswith("events"))
        told = kubectl("get", chosen, "-A", "-l", "app.kubernetes.io/name=gpu-scheduler", "-o", "json")
        objects = [each for each in json.loads(told)["items"] if "ownerReferences" not in each["metadata"]]
        return {f"{each['kind']} {each['metadata']['name']}" for each in objects}

    def change(self, values: str) -> None:
        """Upgrade to these values in place of all but the image."""
        self.reader.run_block("sed -i '3,$d' gpu-scheduler.yaml")
        self.reader.run_block(f"cat >> gpu-scheduler.yaml <<'END'\n{values}\nEND\n{UPGRADE}")

    def await_pods(self) -> None:
        """Wait until the pods of the last change are ready, and the others are gone."""
        self.installation.await_rollout()
        self.installation.await_ready()

    def containers(self) -> dict[str, list[str]]:
        """The containers of each Deployment."""
        return {
            each["metadata"]["name"]: [
                name["name"] for name in each["spec"]["template"]["spec"]["containers"]
            ]
            for each in self.reader.api.items(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")
        }

    def packs(self) -> bool:
        """Whether the pods are configured for binpack."""
        config = self.reader.api.get(f"{CONFIG_MAPS}/gpu-scheduler-config")
        return "strategy: binpack" in config["data"]["extender.yaml"].replace("# ", "")

    def columns(self) -> list[str]:
        """The columns of GPUNodes."""
        definition = self.reader.api.get(f"{DEFINITIONS}/gpunodes.gpu.scheduler-ext.io")
        (version,) = definition["spec"]["versions"]
        return [each["name"] for each in version["additionalPrinterColumns"]]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with running_reader(tmp_path_factory, installs=False) as reader:
        room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
        node = {"metadata": {"name": "h100-1", "labels": GFD_H100}, "status": {"capacity": room}}
        reader.api.create("/api/v1/nodes", node)
        path = f"{find_helm().parent}:{reader.cluster.plane.binaries.kubectl.parent}:{os.environ['PATH']}"
        reader.environment = {"PATH": path}
        yield Story(reader)


def test_it_installs_and_tests_itself(story: Story) -> None:
    told = story.run("## Install")
    assert told.count("Phase:          Succeeded") == 4, "the pod, its Service and its policies"
    services = story.reader.run_block("kubectl get services,networkpolicies,pods -A -o name")
    assert "gpu-scheduler-test" not in services, "the objects of the test are gone"


def test_its_scheduler_places_a_pod(story: Story) -> None:
    story.reader.write_pod(('"A100-80GB"', '"H100"'), ('"3"', '"1"'))
    story.reader.run_block("kubectl apply -f pod.yaml")
    assert story.reader.node_of("three-a100") == "h100-1"
    assert story.installation.metric(CALLS, verb="filter") >= 1


def test_a_value_rolls_the_pods(story: Story) -> None:
    before = {pod.name for pod in story.installation.pods()}
    story.run("## Values")
    assert story.packs()
    eventually(
        lambda: not before & {pod.name for pod in story.installation.pods()}, "the pods before it are gone"
    )


def test_a_new_chart_upgrades_the_definition(story: Story) -> None:
    """And creates the extender's token again, which was replaced as on the page of kubectl."""
    token = "secret/gpu-scheduler-extender-token serviceaccount/gpu-scheduler-extender"
    story.reader.run_block(f"kubectl -n {NAMESPACE} delete {token}")
    template = story.reader.checkout / CHART / "templates" / "crds" / "gpunodes.yaml"
    shipped = template.read_text()
    column = "        - {name: New, type: string, jsonPath: .metadata.name}\n"
    above = "additionalPrinterColumns:\n"
    assert above in shipped
    template.write_text(shipped.replace(above, above + column))
    story.reader.run_block(UPGRADE)
    template.write_text(shipped)
    assert story.columns()[0] == "New"
    story.reader.run_block(f"kubectl -n {NAMESPACE} get {token}")


def test_it_rolls_back(story: Story) -> None:
    """To the revision with the value and the shipped definition, and then to the first one."""
    story.run("## Upgrade")
    assert story.columns()[0] == "GPUs"
    assert story.packs()
    story.reader.run_block(f"helm -n {NAMESPACE} rollback gpu-scheduler 1")
    assert not story.packs()


@pytest.fixture
def workload(story: Story) -> Iterator[Workload]:
    with Workload(story.installation) as workload:
        yield workload


def test_a_value_turns_the_standalone_extender_on(story: Story, workload: Workload) -> None:
    """With the certificates of its page. kube-scheduler asks it, and the sidecar is gone."""
    certificates, secrets = blocks(STANDALONE, "sh")
    create = re.findall(r"^kubectl .* create secret .*\\\n.*$", secrets, re.MULTILINE)
    story.reader.run_block("\n".join((certificates, *create)))
    story.change("standalone: {enabled: true}")
    story.await_pods()
    assert story.containers() == {"gpu-scheduler": ["kube-scheduler"], "gpu-scheduler-extender": ["extender"]}
    assert workload.place(workload.pod({"nvidia.com/gpu": "1"})) == "h100-1"
    assert story.installation.metric(CALLS, component="extender", verb="filter", code="200") >= 1


def test_a_value_turns_shares_on(story: Story) -> None:
    story.change("shares: {enabled: true}")
    assert "MutatingAdmissionPolicy gpu-scheduler-shares" in story.objects()


def test_uninstalling_keeps_the_reports_and_running_pods(story: Story) -> None:
    story.reader.api.create(GPU_NODES, gpu_node("h100-1"))
    uninstall, everything = blocks(section(PAGE, "## Uninstall"), "sh")
    story.reader.run_block(uninstall)
    definitions = (f"CustomResourceDefinition {kind}.gpu.scheduler-ext.io" for kind in KINDS)
    kept = {*definitions, f"Namespace {NAMESPACE}"}
    eventually(lambda: story.objects() == kept, "the other objects are gone", 60)
    assert [each["metadata"]["name"] for each in story.reader.api.items(GPU_NODES)] == ["h100-1"]
    assert story.reader.node_of("three-a100") == "h100-1"
    story.reader.run_block(everything)
    eventually(lambda: not story.objects(), "nothing is left", 60)


def test_helm_takes_over_from_kubectl(story: Story) -> None:
    story.reader.run("README.md", "## Install on a cluster")
    story.run("## From kustomize to Helm")
    names = [each["metadata"]["name"] for each in story.reader.api.items(CONFIG_MAPS)]
    assert [name for name in names if "config" in name] == ["gpu-scheduler-config"]
