"""The page on shares and its samples are used unchanged, and its commands run in order."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from tests.e2e.agents.gpunode_api import write_report
from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.whole import running_cluster
from tests.e2e.documented import PODS, Reader
from tests.e2e.installation import Installation
from tests.kube_objects import SHARE, gpu, gpu_node
from tests.manifests.objects import Json
from tests.manifests.policy import violations
from tests.pages import ROOT, blocks, section

pytestmark = pytest.mark.release

PAGE = (ROOT / "docs" / "tasks" / "shares.md").read_text()


def the_pod() -> str:
    (pod,) = [block for block in blocks(PAGE, "yaml") if "kind: Pod" in block]
    return pod


NODE = "share-l4-01"
NODE_PATH = f"/api/v1/nodes/{NODE}"
GPU_MIB = 23034
ROOM_MIB = 2 * (GPU_MIB - 2304)


class ShareReader(Reader):
    """A reader who has a node of two L4."""

    def report(self, sequence: int) -> None:
        """Renew the agent's report, because stale reports are not used."""
        devices = [gpu(i, f"GPU-{i}", model="L4", total=GPU_MIB) for i in range(2)]
        write_report(self.api, gpu_node(NODE, devices, sequence=sequence))

    def amounts(self) -> list[str | None]:
        """What the node advertises."""
        status = self.api.get(NODE_PATH)["status"]
        return [status[part].get(SHARE) for part in ("capacity", "allocatable")]

    def configuration(self) -> tuple[Json, Json]:
        """kube-scheduler's configuration and the extender's, as the pods read them."""
        data = Installation(self.cluster).configuration()
        return yaml.safe_load(data["kube-scheduler.yaml"]), yaml.safe_load(data["extender.yaml"])

    def await_scheduler(self, name: str) -> None:
        """The API server applies new policies a moment after they were written."""
        pod = {"metadata": {"name": "dry"}, "spec": yaml.safe_load(the_pod())["spec"]}

        def judged() -> bool:
            placed = {**pod, "spec": {**pod["spec"], "nodeName": NODE}}
            return "is placed by" in self.api.refusal("POST", f"{PODS}?dryRun=All", placed)

        def given() -> bool:
            return bool(self.api.create(f"{PODS}?dryRun=All", pod)["spec"]["schedulerName"] == name)

        eventually(judged, "share pods are judged")
        eventually(given, f"share pods are given {name}")

    def place(self, name: str) -> Json:
        """A small share in an image with no other request; the bound pod."""
        main = {"name": "main", "image": "chat:1", "resources": {"limits": {SHARE: "100"}}}
        spec = {"containers": [main], "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
        self.api.create(PODS, {"metadata": {"name": name}, "spec": spec})
        assert self.node_of(name) == NODE
        return self.api.get(f"{PODS}/{name}")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareReader]:
    with running_cluster(tmp_path_factory.mktemp("shares-page")) as cluster:
        room = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        node = {"metadata": {"name": NODE}, "status": {"capacity": room}}
        cluster.plane.api.create("/api/v1/nodes", node)
        eventually(lambda: "allocatable" in cluster.plane.api.get(NODE_PATH)["status"], "the node is there")
        reader = ShareReader(cluster, tmp_path_factory.mktemp("checkout"))
        reader.run("README.md", "## Install on a cluster")
        reader.report(1)
        yield reader


def test_the_page_from_installing_to_taking_away(reader: ShareReader) -> None:
    """One reader runs all of it, on one cluster."""
    reader.run("docs/tasks/shares.md", "## Node preparation")
    reader.run("docs/tasks/shares.md", "## Installing")
    assert reader.amounts() == [str(ROOM_MIB)] * 2
    reader.await_scheduler("gpu-scheduler")

    (reader.checkout / "chat.yaml").write_text(the_pod())
    reader.run("docs/tasks/shares.md", "## Example pod")
    assert reader.node_of("chat") == NODE
    annotations = reader.api.get(f"{PODS}/chat")["metadata"]["annotations"]
    asked = {each["container"]: each["memoryMiB"] for each in assigned(annotations)["containers"]}
    assert asked == {"main": 16384, "embed": 4096}
    # Runbooks that only concern shares.
    reader.follow("docs/runbooks/GPUBindConflictsHigh.md")
    reader.follow("docs/runbooks/GPUSharePodsUnplaced.md")

    reader.report(2)
    reader.run("docs/tasks/shares.md", "## A configuration of your own")
    scheduler, extender = reader.configuration()
    assert scheduler["extenders"][0]["bindVerb"] == "bind"
    assert (extender["score"], extender["bind"]) == ({"strategy": "binpack"}, {"enabled": True})
    assert assigned(reader.place("with-my-own")["metadata"]["annotations"])["node"] == NODE

    reader.report(3)
    reader.run("docs/tasks/shares.md", "## Another name for the scheduler")
    objects = list(yaml.safe_load_all(reader.run_block("kubectl kustomize my-cluster")))
    assert violations(objects) == []
    scheduler, extender = reader.configuration()
    assert [each["schedulerName"] for each in scheduler["profiles"]] == ["my-scheduler"]
    assert scheduler["extenders"][0]["bindVerb"] == "bind"
    assert (extender["schedulerNames"], extender["bind"]) == (["my-scheduler"], {"enabled": True})
    reader.await_scheduler("my-scheduler")
    pod = reader.place("by-another-name")
    assert pod["spec"]["schedulerName"] == "my-scheduler"
    assert assigned(pod["metadata"]["annotations"])["node"] == NODE

    away, rest, by_hand = blocks(section(PAGE, "## Uninstalling"), "sh")
    reader.run_block("kubectl delete pod with-my-own by-another-name")
    reader.run_block(away)
    assert reader.amounts() == [None, None]
    reader.run("README.md", "## Install on a cluster")
    reader.run_block(rest)
    cluster_wide = "kubectl get crds,clusterroles,clusterrolebindings -o name; kubectl api-resources -o name"
    assert "gpureservations" not in reader.run_block(cluster_wide)
    kinds = "mutatingadmissionpolicies,mutatingadmissionpolicybindings,validatingadmissionpolicies"
    policies = reader.run_block(f"kubectl get {kinds},validatingadmissionpolicybindings -o name")
    left = {name.rpartition("/")[2] for name in policies.splitlines()}
    ours = {"gpu-scheduler-nudge-only", "gpu-scheduler-nominations-only"}
    assert left == ours | {"gpu-scheduler-agent-own-node-only"}
    amount = {part: {SHARE: "1"} for part in ("capacity", "allocatable")}
    reader.api.patch(f"{NODE_PATH}/status", {"status": amount})
    reader.run_block(by_hand)
    assert reader.amounts() == [None, None]


def assigned(annotations: Json) -> Json:
    """The decision in the pod's annotations."""
    found: Json = json.loads(annotations["gpu.scheduler-ext.io/assigned"])
    return found
