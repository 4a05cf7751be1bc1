"""The commands of docs/tasks/standalone.md and of the runbook about its certificates, on a new cluster."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.ports import LOOPBACK
from tests.e2e.cluster.unverified import get
from tests.e2e.documented import Reader, running_reader
from tests.e2e.installation import NAMESPACE, Installation
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.release


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Reader, Installation]]:
    with running_reader(tmp_path_factory) as reader:
        reader.run_block("kubectl apply --server-side -f manifests/components/kwok-demo/nodes.yaml")
        reader.run("docs/tasks/standalone.md")
        yield reader, Installation(reader.cluster)


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
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"

    def active() -> list[str]:
        pods = installation.pods("extender")
        return [pod.name for pod in pods if installation.metric_of(pod, "gpu_extender_active") == 1]

    def holder() -> str:
        lease = installation.api.get(f"{leases}/gpu-scheduler-extender")
        return str(lease["spec"]["holderIdentity"]).partition("_")[0]

    eventually(lambda: active() == [holder()], "one of the extenders is active")


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
