"""Credentials of the control plane: a certificate authority, static tokens, the key for ServiceAccounts."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

# Kubernetes' own users and group; the control plane's default roles are bound to these names.
USERS = {
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kubelet": ("kubelet", "system:masters"),
}
"""Name of the token here: user name and group in the cluster. The kubelet serves all nodes, so it has all
rights.
"""


class Credentials:
    """Written once into `directory`, new for every control plane."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        authority = trustme.CA()
        self.ca_file = directory / "ca.crt"
        authority.cert_pem.write_to_path(self.ca_file)
        serving = authority.issue_cert("127.0.0.1", "localhost")
        self.serving_cert_file = directory / "serving.crt"
        self.serving_key_file = directory / "serving.key"
        for pem in serving.cert_chain_pems:
            pem.write_to_path(self.serving_cert_file, append=True)
        serving.private_key_pem.write_to_path(self.serving_key_file)
        client = authority.issue_cert("kube-apiserver-kubelet-client")
        self.kubelet_client_file = directory / "kubelet-client.pem"
        """The API server's certificate for connections to the kubelet, with its key."""
        client.private_key_and_cert_chain_pem.write_to_path(self.kubelet_client_file)
        self.service_account_key_file = directory / "service-account.key"
        self.service_account_key_file.write_bytes(
            rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        self.tokens = {name: secrets.token_urlsafe(16) for name in USERS}
        self.tokens_file = directory / "tokens.csv"
        self.tokens_file.write_text(
            "".join(f'{self.tokens[name]},{user},{user},"{group}"\n' for name, (user, group) in USERS.items())
        )

    def kubeconfig(self, server: str, name: str) -> Path:
        """A kubeconfig file for one of USERS."""
        path = self._directory / f"{name}.kubeconfig"
        write_kubeconfig(path, server, self.ca_file, {"token": self.tokens[name]})
        return path


def write_kubeconfig(path: Path, server: str, ca_file: Path, user: dict[str, str]) -> None:
    """A kubeconfig with one context; `user` is {"token": ...} or {"tokenFile": ...}."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "test", "user": user}],
        "contexts": [
            {"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}
        ],
        "current-context": "test",
    }
    path.write_text(json.dumps(config))
