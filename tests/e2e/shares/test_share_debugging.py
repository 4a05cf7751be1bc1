"""A debugging container of a pod with a share does not see its GPUs, on the real API server."""

from __future__ import annotations

import pytest

from tests.e2e.cluster.api import STRATEGIC, eventually
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
    share,
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


BINDINGS = (
    f"{POLICIES}/mutatingadmissionpolicybindings/gpu-scheduler-shares",
    f"{POLICIES}/validatingadmissionpolicybindings/gpu-scheduler-share-pods",
)


@pytest.fixture
def debugged_before(shares: ShareCluster) -> str:
    """The name of a share pod that was debugged before the policies existed."""
    name = shares.assigned()
    bindings = {path: shares.api.get(path) for path in BINDINGS}
    for path in bindings:
        shares.api.delete(path)
    free = shares.pod(share("main", **env(VISIBLE)), schedulerName="other")
    try:
        eventually(lambda: not shares.refusal(free), "share pods are not judged")
        eventually(lambda: unchanged(shares), "share pods are given nothing")
        debug(shares.api, f"{shares.pods}/{name}", debugged("before"))
    finally:
        for path, binding in bindings.items():
            metadata = {key: binding["metadata"][key] for key in ("name", "labels")}
            again = {"metadata": metadata, "spec": binding["spec"]}
            shares.api.create(path.rpartition("/")[0], again)
        shares.await_policies()
    return name


def unchanged(shares: ShareCluster) -> bool:
    made = shares.api.create(f"{shares.pods}?dryRun=All", shares.pod())
    return variables(made) == {"main": None}


def test_an_existing_debugging_container_stays_as_it_is(shares: ShareCluster, debugged_before: str) -> None:
    """The API server refuses every change of an ephemeral container."""
    debug(shares.api, f"{shares.pods}/{debugged_before}", debugged("after"))
    shares.api.patch(f"{shares.pods}/{debugged_before}", {"metadata": {"labels": {"a": "b"}}})
    expected = {"main": [own("main")], "before": None, "after": [VOID]}
    assert variables(shares.get(debugged_before)) == expected


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
