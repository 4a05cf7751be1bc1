"""etcd, kube-apiserver, kube-controller-manager and the default kube-scheduler, on loopback."""

from __future__ import annotations

import base64
import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import Api, ApiError
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.child import Child
from tests.e2e.cluster.credentials import Credentials
from tests.e2e.cluster.features import STOCK, Features
from tests.e2e.cluster.ports import LOOPBACK, free_ports

_START_S = 60.0
_STOP_S = 5.0
# Bindings with their authors, and earlier announcements: the only requests in the audit log.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Request",
            "verbs": ["create", "update"],
            "resources": [
                {"group": "", "resources": ["pods/binding"]},
                {"group": "gpu.scheduler-ext.io", "resources": ["gpureservations"]},
            ],
        },
        {"level": "None"},
    ],
}


class ControlPlane:
    """A running control plane in `directory`; use `running_control_plane`.

    Authentication is by token, authorization by RBAC, so a missing right is refused as in any cluster. Nodes
    have no heartbeats: taints and evictions for missing heartbeats are off. With `audit` the API server
    writes Bindings with their authors to `audit_log`. All components have the `features`.
    """

    def __init__(
        self, binaries: Binaries, directory: Path, audit: bool = False, features: Features = STOCK
    ) -> None:
        self.binaries = binaries
        self.features = features
        self.directory = directory
        self.audit_log = directory / "audit.log"
        self._audit = audit
        self.credentials = Credentials(directory / "credentials")
        self._children: list[Child] = []
        self._etcd_port, etcd_peers, api_port = free_ports(3)
        self._etcd_peers = f"http://{LOOPBACK}:{etcd_peers}"
        self.server = f"https://{LOOPBACK}:{api_port}"
        self.api = self.api_as("admin")

    def api_as(self, user: str) -> Api:
        """The API as one of `credentials.USERS`."""
        return Api(self.server, self.credentials.ca_file, self.credentials.tokens[user])

    def kubeconfig(self, user: str) -> Path:
        """A kubeconfig file for one of `credentials.USERS`."""
        return self.credentials.kubeconfig(self.server, user)

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """kubectl's output. Raises KubectlError with its error message."""
        done = self.try_kubectl(*arguments, stdin=stdin)
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done.stdout

    def try_kubectl(
        self, *arguments: str | Path, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The same, whatever the result."""
        home = self.directory / "home"
        return subprocess.run(
            [self.binaries.kubectl, *map(str, arguments)],
            input=stdin,
            text=True,
            capture_output=True,
            check=False,
            # Nothing of the user's own: neither kubeconfig nor plugins nor preferences.
            env={"HOME": str(home), "KUBECONFIG": str(self.kubeconfig("admin")), "KUBECTL_KUBERC": "false"},
        )

    def start(self) -> None:
        """Start everything and wait until it answers. Raises ChildError."""
        self._start_etcd()
        self.start_apiserver()
        self._start(
            "kube-controller-manager",
            self.binaries.kube_controller_manager,
            f"--kubeconfig={self.kubeconfig('kube-controller-manager')}",
            f"--service-account-private-key-file={self.credentials.service_account_key_file}",
            f"--root-ca-file={self.credentials.ca_file}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            f"--bind-address={LOOPBACK}",
            "--secure-port=0",
            "--controllers=*,-node-lifecycle-controller",
            # With 20 requests a second, the default, it takes four seconds to start.
            "--kube-api-qps=500",
            "--kube-api-burst=500",
            *self.features.flags(),
        )
        self._start(
            "kube-scheduler",
            self.binaries.kube_scheduler,
            f"--kubeconfig={self.kubeconfig('kube-scheduler')}",
            "--leader-elect=false",
            f"--bind-address={LOOPBACK}",
            "--secure-port=0",
            *self.features.flags(),
        )
        # A namespace accepts pods as soon as the controller manager has given it its ServiceAccount.
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        self._children[2].wait_ready(lambda: bool(self.api.items(accounts)), _START_S)

    def stop(self) -> None:
        """Stop everything, the last started first."""
        while self._children:
            self._children.pop().stop(_STOP_S)

    @property
    def _apiserver(self) -> Child:
        return next(child for child in self._children if child.name == "kube-apiserver")

    def stop_apiserver(self) -> None:
        """Stop answering requests; everything else continues."""
        apiserver = self._apiserver
        self._children.remove(apiserver)
        apiserver.stop(_STOP_S)

    @contextlib.contextmanager
    def paused_apiserver(self) -> Iterator[None]:
        """Delay all answers; connections stay."""
        apiserver = self._apiserver
        apiserver.signal_all(signal.SIGSTOP)
        try:
            yield
        finally:
            apiserver.signal_all(signal.SIGCONT)

    def compact(self) -> None:
        """Make etcd forget every version but the present one, so that no watch can continue from an older
        one.
        """
        url = f"http://{LOOPBACK}:{self._etcd_port}/v3/kv"
        key = base64.b64encode(b"none").decode()
        revision = json.loads(unverified.post(f"{url}/range", {"key": key}))["header"]["revision"]
        unverified.post(f"{url}/compaction", {"revision": revision, "physical": True})

    def _start(self, name: str, *command: str | Path) -> Child:
        child = Child(name, command, self.directory / f"{name}.log")
        self._children.append(child)
        return child

    def _start_etcd(self) -> None:
        client = f"http://{LOOPBACK}:{self._etcd_port}"
        etcd = self._start(
            "etcd",
            self.binaries.etcd,
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={self._etcd_peers}",
            f"--initial-advertise-peer-urls={self._etcd_peers}",
            f"--initial-cluster=default={self._etcd_peers}",
            # Nothing here outlives the run.
            "--unsafe-no-fsync",
        )
        etcd.wait_ready(lambda: bool(unverified.get(f"{client}/health")), _START_S)

    def start_apiserver(self) -> None:
        """Answer requests, with an empty watch cache. Raises ChildError."""
        mine = self.credentials
        apiserver = self._start(
            "kube-apiserver",
            self.binaries.kube_apiserver,
            f"--etcd-servers=http://{LOOPBACK}:{self._etcd_port}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.server.rpartition(':')[2]}",
            f"--tls-cert-file={mine.serving_cert_file}",
            f"--tls-private-key-file={mine.serving_key_file}",
            f"--client-ca-file={mine.ca_file}",
            f"--kubelet-certificate-authority={mine.ca_file}",
            f"--kubelet-client-certificate={mine.kubelet_client_file}",
            f"--kubelet-client-key={mine.kubelet_client_file}",
            f"--requestheader-client-ca-file={mine.ca_file}",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--token-auth-file={mine.tokens_file}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={mine.service_account_key_file}",
            f"--service-account-signing-key-file={mine.service_account_key_file}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Its own address is loopback, which an endpoint may not have.
            "--endpoint-reconciler-type=none",
            # Taints new nodes as not ready until the node lifecycle controller sees them.
            "--disable-admission-plugins=TaintNodesByCondition",
            "--allow-privileged",
            *self._audit_flags(),
            *self.features.apiserver_flags(),
        )
        apiserver.wait_ready(self._is_ready, _START_S)

    def _audit_flags(self) -> list[str]:
        if not self._audit:
            return []
        policy = self.directory / "audit-policy.json"
        policy.write_text(json.dumps(_AUDIT_POLICY))
        return [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]

    def _is_ready(self) -> bool:
        try:
            return self.api.text("/readyz") == "ok"
        except ApiError:
            return False


class KubectlError(Exception):
    """kubectl ended with an error; str() is its message."""


@contextlib.contextmanager
def running_control_plane(
    binaries: Binaries, directory: Path, audit: bool = False, features: Features = STOCK
) -> Iterator[ControlPlane]:
    """A control plane that is stopped at the end; `directory` keeps its logs."""
    plane = ControlPlane(binaries, directory, audit, features)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
