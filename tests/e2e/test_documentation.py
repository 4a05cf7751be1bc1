"""The commands of the README, of the quickstart, and of installing and standalone, on fresh clusters."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection

import pytest
import yaml

from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.ports import LOOPBACK
from tests.e2e.cluster.running_pod import RunningPod
from tests.e2e.cluster.unverified import get
from tests.e2e.cluster.whole import PLAIN_NODES, running_cluster
from tests.e2e.documented import Reader
from tests.e2e.installation import NAMESPACE, Installation
from tests.kube_objects import GFD_H100
from tests.manifests.objects import of_kind
from tests.pages import ROOT, blocks, section

GFD_A100 = GFD_H100 | {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "4"}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with running_cluster(tmp_path_factory.mktemp("documented")) as cluster:
        for name, labels, gpus in (("a100-1", GFD_A100, "4"), ("h100-1", GFD_H100, "8")):
            room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": gpus}
            node = {"metadata": {"name": name, "labels": labels}, "status": {"capacity": room}}
            cluster.plane.api.create("/api/v1/nodes", node)
        eventually(lambda: "allocatable" in cluster.plane.api.get("/api/v1/nodes/h100-1")["status"], "nodes")
        reader = Reader(cluster, tmp_path_factory.mktemp("checkout"))
        reader.run("README.md", "## Install on a cluster")
        reader.write_pod()
        yield reader


def test_the_readme_on_a_pod(reader: Reader) -> None:
    reader.run("README.md", "## Use it from a pod")
    assert reader.node_of("three-a100") == "a100-1"
    told = (
        "gpu-scheduler Successfully assigned default/three-a100 to a100-1",
        "scheduler-ext.io/extender on a100-1, GPUs picked by the device plugin",
    )

    def described() -> bool:
        # Columns are as wide as their longest word.
        text = " ".join(reader.run_block("kubectl describe pod three-a100").split())
        return all(each in text for each in told)

    eventually(described, "describe says where, and why")


def test_the_page_on_installing_from_the_inventory_to_removing(reader: Reader) -> None:
    """After the README: the page continues from there."""
    reader.run_block("kubectl apply -f pod.yaml")
    assert reader.node_of("three-a100") == "a100-1"
    reader.run("docs/tasks/install.md", "## The inventory")
    reader.run("docs/tasks/install.md", "## Another configuration")
    # test_identities.py covers the tokens afterwards.
    reader.run("docs/tasks/install.md", "## The extender's token")
    extender = "kubectl -n gpu-scheduler get configmaps -o yaml | grep -c 'strategy: binpack'"
    assert int(reader.run_block(extender)) >= 1
    # The first pod has three of the four GPUs.
    reader.write_pod(("three-a100", "one-more"), ('"3"', '"1"'))
    (block,) = blocks(section((ROOT / "docs/tasks/install.md").read_text(), "## Why a pod waits"), "sh")
    assert "a100-1" in reader.run_block(block)
    reader.run("docs/tasks/install.md", "## Uninstalling")
    left = reader.run_block("kubectl get all,configmaps,leases -n gpu-scheduler -o name")
    assert left == ""
    cluster_wide = "kubectl get namespaces,crds,clusterroles,clusterrolebindings -o name"
    assert [name for name in reader.run_block(cluster_wide).splitlines() if "gpu" in name] == []
    assert reader.node_of("three-a100") == "a100-1", "what runs stays"


def test_a_narrower_network_policy(reader: Reader) -> None:
    (kustomization,) = blocks(section((ROOT / "docs/tasks/install.md").read_text(), "## Platforms"), "yaml")
    overlay = reader.checkout / "narrow"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(kustomization)
    policies = of_kind(
        list(yaml.safe_load_all(reader.run_block("kubectl kustomize narrow"))), "NetworkPolicy"
    )
    (egress,) = [each["spec"]["egress"] for each in policies if each["metadata"]["name"] == "gpu-scheduler"]
    assert egress == [{"to": [{"ipBlock": {"cidr": "192.0.2.10/32"}}], "ports": [{"port": 16443}]}]


def test_every_block_stands_in_a_section_that_is_run(reader: Reader) -> None:
    sections = (
        *("## The inventory", "## Another configuration"),
        *("## The extender's token", "## Why a pod waits", "## Uninstalling"),
    )
    text = (ROOT / "docs/tasks/install.md").read_text()
    assert sum(len(blocks(section(text, each), "sh")) for each in sections) == len(blocks(text, "sh"))
    readme = (ROOT / "README.md").read_text()
    run = ("## Install on a cluster", "## Use it from a pod")
    assert sum(len(blocks(section(readme, each), "sh")) for each in run) == len(blocks(readme, "sh"))


def test_the_quickstart(tmp_path_factory: pytest.TempPathFactory) -> None:
    """From a checkout to a pod that kube-scheduler has bound, and its removal."""
    with running_cluster(tmp_path_factory.mktemp("demo")) as cluster:
        reader = Reader(cluster, tmp_path_factory.mktemp("checkout"))
        *first, remove, labels = blocks((ROOT / "docs/quickstart.md").read_text(), "sh")
        told = [reader.run_block(block) for block in first]
        assert reader.node_of("half-an-h100-node") == "h100-02", "h100-01 has only three GPUs left"
        assert "h100-02" in told[-1]
        reader.run_block(remove)
        nodes = {node["metadata"]["name"] for node in reader.api.items("/api/v1/nodes")}
        assert nodes == set(PLAIN_NODES)
        reader.run_block(labels)


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Reader, Installation]]:
    with running_cluster(tmp_path_factory.mktemp("standalone")) as cluster:
        reader = Reader(cluster, tmp_path_factory.mktemp("checkout"))
        reader.run_block("kubectl apply --server-side -f manifests/components/kwok-demo/nodes.yaml")
        reader.run("README.md", "## Install on a cluster")
        reader.run("docs/tasks/standalone.md")
        yield reader, Installation(cluster)


def test_standalone_decides_for_pods(standalone: tuple[Reader, Installation]) -> None:
    reader, installation = standalone
    reader.write_pod(('"A100-80GB"', '"H100"'), ('"3"', '"4"'))
    reader.run_block("kubectl apply -f pod.yaml")
    assert reader.node_of("three-a100") in ("h100-01", "h100-02")
    assert installation.metric("gpu_extender_request_duration_seconds_count", "extender", verb="filter") == 1
    eventually(
        lambda: [list(pod.containers) for pod in installation.pods()] == [["kube-scheduler"]] * 2,
        "the pods with a sidecar are gone",
    )


def test_standalone_one_of_the_extenders_writes_to_the_cluster(
    standalone: tuple[Reader, Installation],
) -> None:
    _, installation = standalone

    def is_active(pod: RunningPod) -> bool:
        return installation.metric_of(pod, "gpu_extender_active") == 1

    def one() -> RunningPod | None:
        active = [pod for pod in installation.pods("extender") if is_active(pod)]
        return active[0] if len(active) == 1 else None

    active = eventually(one, "one of the extenders is active")
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    lease = installation.api.get(f"{leases}/gpu-scheduler-extender")
    assert lease["spec"]["holderIdentity"].startswith(f"{active.name}_")


def test_standalone_refuses_requests_without_a_certificate(standalone: tuple[Reader, Installation]) -> None:
    reader, installation = standalone
    port = installation.pods("extender")[0].ports.local("api")
    tls = reader.checkout / "tls"
    context = ssl.create_default_context(cafile=tls / "ca.crt")
    context.check_hostname = False

    def status() -> int:
        with contextlib.closing(HTTPSConnection(LOOPBACK, port, context=context, timeout=5)) as connection:
            connection.request("GET", "/version")
            return connection.getresponse().status

    # Whatever the kernel and TLS return, it is not an HTTP answer.
    for ask in (status, lambda: get(f"http://{LOOPBACK}:{port}/version")):
        with pytest.raises(OSError, match=r"(?i)closed|reset|alert|eof|disconnected|violation|refused"):
            ask()
    context.load_cert_chain(tls / "client.crt", tls / "client.key")
    assert status() == 200


def test_standalone_when_a_certificate_ends(standalone: tuple[Reader, Installation]) -> None:
    reader, installation = standalone
    reader.follow("docs/runbooks/CertificateExpiry.md")
    installation.await_rollout()


def test_standalone_takes_a_renewed_certificate(standalone: tuple[Reader, Installation]) -> None:
    """A new CA for both sides: kube-scheduler is restarted, the extender is not."""
    reader, installation = standalone
    text = (ROOT / "docs/tasks/standalone.md").read_text()
    reader.run_block(blocks(text, "sh")[0])
    for secret, name in (("gpu-scheduler-extender-tls", "server"), ("gpu-scheduler-client-tls", "client")):
        files = f"--from-file=tls.crt=tls/{name}.crt --from-file=tls.key=tls/{name}.key"
        create = (
            f"kubectl -n {NAMESPACE} create secret generic {secret} {files} --from-file=ca.crt=tls/ca.crt"
        )
        reader.run_block(f"{create} --dry-run=client -o yaml | kubectl replace -f -")
    extenders = [pod.containers["extender"] for pod in installation.pods("extender")]
    reader.run_block(f"kubectl -n {NAMESPACE} rollout restart deployment/gpu-scheduler")
    installation.await_rollout()
    reader.write_pod(("three-a100", "after"), ('"3"', '"1"'))
    reader.run_block("kubectl apply -f pod.yaml")
    assert reader.node_of("after")
    assert [extender.restarts for extender in extenders] == [0, 0]
