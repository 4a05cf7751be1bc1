"""Rights of the component `dra-health`, to the last verb."""

from __future__ import annotations

from tests.manifests.shipped import shipped
from tests.manifests.test_rights import BASE, spelled_out

RIGHTS: dict[str, set[str]] = {
    "ClusterRole gpu-scheduler-device-taints": {"resource.k8s.io devicetaintrules: create delete"},
}


def test_the_rights() -> None:
    assert spelled_out(shipped("dra-health")) == BASE | RIGHTS
