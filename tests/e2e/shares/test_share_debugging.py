"""A debugging container of a pod with a share does not see its GPUs, on the real API server."""

from __future__ import annotations

import pytest

from tests.e2e.cluster.api import STRATEGIC
from tests.e2e.shares.share_cluster import (
    VISIBLE,
    VOID,
    ShareCluster,
    container,
    debug,
    debugged,
    env,
    own,
    refused,
    variables,
)
from tests.kube_objects import SHARE

POLICIES = "/apis/admissionregistration.k8s.io/v1"
SETS_VISIBLE = f"ephemeral container debug of a pod that asks {SHARE} sets {VISIBLE}; leave it out"
SETS_CUDA = f"container debug of a pod that asks {SHARE} sets CUDA_VISIBLE_DEVICES; leave it out"


def test_a_debugging_container_of_a_share_pod_sees_no_gpu(shares: ShareCluster) -> None:
    name = shares.assigned()
    for number in ("one", "two"):
        debug(shares.api, f"{shares.pods}/{name}", debugged(number))
    assert variables(shares.get(name)) == {"main": [own("main")], "one": [VOID], "two": [VOID]}


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        pytest.param(VISIBLE, SETS_VISIBLE, id="ask for all GPUs"),
        pytest.param("CUDA_VISIBLE_DEVICES", SETS_CUDA, id="choose devices for CUDA"),
    ],
)
def test_a_debugging_container_of_a_share_pod_may_not(shares: ShareCluster, variable: str, said: str) -> None:
    name = shares.assigned()
    path = f"{shares.pods}/{name}/ephemeralcontainers"
    wrong = debugged("debug", **env(variable))
    assert said in refused(shares.api, "PATCH", path, wrong, STRATEGIC)


def test_a_debugging_container_of_another_pod_may_ask_for_all_gpus(shares: ShareCluster) -> None:
    name = shares.made(container())
    debug(shares.api, f"{shares.pods}/{name}", debugged("debug", **env(VISIBLE)))
    assert variables(shares.get(name))["debug"] == [{"name": VISIBLE, "value": "all"}]
