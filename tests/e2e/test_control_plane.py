"""The test control plane itself."""

from __future__ import annotations

from tests.e2e.cluster.whole import Cluster
from tests.e2e.installation import Installation


def test_everything_listens_on_loopback_only(cluster: Cluster, installation: Installation) -> None:
    addresses = cluster.plane.listening_addresses() | cluster.kubelet_server.listening_addresses()
    for pod in installation.pods():
        for container in pod.containers.values():
            assert container.child is not None
            assert container.child.listening_addresses()
            addresses |= container.child.listening_addresses()
    assert {address for address, _ in addresses} == {"127.0.0.1"}
