"""GPUReservations on the real API server: accepted content, write access, and one winner of concurrent
writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.cluster.api import ApiError, Json, eventually
from tests.e2e.shares.share_cluster import ShareCluster

API_VERSION = "gpu.scheduler-ext.io/v1alpha1"
PATH = f"/apis/{API_VERSION}/gpureservations"
NAME = "plain-1"


def share(**fields: Any) -> Json:
    return {"container": "main", "memoryMiB": 4096, "device": "GPU-1", **fields}


def intent(number: int = 0, **fields: Any) -> Json:
    return {
        "podUID": f"uid-{number}",
        "namespace": "default",
        "name": f"pod-{number}",
        "resourceVersion": "1",
        "pod": {"priority": 0, "shares": [share()]},
        **fields,
    }


def reservation(*intents: Json) -> Json:
    metadata = {"name": NAME}
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUReservation",
        "metadata": metadata,
        "spec": {"intents": list(intents)},
    }


@pytest.fixture
def stored(shares: ShareCluster) -> Iterator[Callable[..., Json]]:
    """Creates the node's reservation as the extender does; removed when the test ends."""

    def create(*intents: Json) -> Json:
        return shares.extender.create(PATH, reservation(*intents))

    yield create
    shares.api.delete(f"{PATH}/{NAME}")


FULL = intent(
    extender="gpu-scheduler-7d9f6-abcde",
    pod={
        "priority": 2_000_001_000,
        "shares": [
            share(device="MIG-3f6a1c/7/0"),
            share(container="a" * 63, memoryMiB=1_000_000, init=True, beside=[0, 63]),
        ],
        "units": [{"resource": "nvidia.com/gpu", "count": 8}, {"resource": "a" * 63 + ".b/c", "count": 1}],
    },
)


def test_every_field_is_kept(stored: Callable[..., Json]) -> None:
    assert stored(FULL, intent(1, pod={"priority": -1, "shares": [share(init=False)]}))["spec"][
        "intents"
    ] == [
        FULL,
        intent(1, pod={"priority": -1, "shares": [share(init=False)]}),
    ]


def test_two_extenders_may_announce_the_same_pod(stored: Callable[..., Json]) -> None:
    both = [intent(extender="one"), intent(extender="other")]
    assert stored(*both)["spec"]["intents"] == both


def test_one_without_intents_is_one(shares: ShareCluster, stored: Callable[..., Json]) -> None:
    made = stored()
    assert made["spec"] == {"intents": []}
    assert shares.extender.request("PUT", f"{PATH}/{NAME}", {**made, "spec": {}})["spec"] == {}


def test_the_largest_of_all_is_taken(shares: ShareCluster, stored: Callable[..., Json]) -> None:
    """Every binding of a node at once, each of a pod of eight shares with the longest possible names."""
    each = [share(container=f"{n:063}", device="G" * 96, init=True, beside=[0, 1, 2]) for n in range(8)]
    intents = [
        intent(
            n,
            podUID=f"{n:0128}",
            namespace="n" * 63,
            name="p" * 253,
            extender="e" * 253,
            pod={"priority": 1, "shares": each},
        )
        for n in range(256)
    ]
    assert len(stored(*intents)["spec"]["intents"]) == 256


def without(field: str) -> Json:
    return {key: value for key, value in intent().items() if key != field}


@pytest.mark.parametrize(
    ("intents", "said"),
    [
        pytest.param([intent(n) for n in range(257)], "must have at most 256 items", id="257 of them"),
        pytest.param([without("podUID")], "podUID: Required", id="without the pod's uid"),
        pytest.param(
            [without("resourceVersion")], "resourceVersion: Required", id="without the pod's version"
        ),
        pytest.param([without("pod")], "pod: Required", id="without what the pod will hold"),
        pytest.param([intent(resourceVersion="")], "resourceVersion", id="with an empty version"),
        pytest.param([intent(podUID="u" * 129)], "Too long", id="with a uid that is none"),
        pytest.param(
            [intent(pod={"priority": 0, "shares": []})], "at least 1 items", id="of a pod without shares"
        ),
        pytest.param(
            [intent(pod={"priority": 0})], "holds neither shares nor units", id="of a pod that holds nothing"
        ),
        pytest.param(
            [intent(pod={"priority": 0, "units": [{"resource": "amd.com/gpu", "count": 0}]})],
            "count",
            id="of no unit",
        ),
        pytest.param(
            [intent(pod={"priority": 0, "units": [{"resource": "amd.com/gpu", "count": 1}] * 2})],
            "Duplicate value",
            id="of one resource twice",
        ),
        pytest.param(
            [intent(pod={"shares": [share()]})], "priority: Required", id="of a pod without a priority"
        ),
        pytest.param(
            [intent(pod={"priority": 2**31, "shares": [share()]})],
            "priority",
            id="of a priority that is none",
        ),
        pytest.param(
            [intent(pod={"priority": 0, "shares": [share(container=f"c-{n}") for n in range(65)]})],
            "at most 64 items",
            id="of 65 shares",
        ),
        pytest.param(
            [intent(pod={"priority": 0, "shares": [share(memoryMiB=0)]})], "memoryMiB", id="of no memory"
        ),
        pytest.param(
            [intent(pod={"priority": 0, "shares": [share(memoryMiB=1_000_001)]})],
            "memoryMiB",
            id="of more memory than there is",
        ),
        pytest.param(
            [intent(pod={"priority": 0, "shares": [share(device="GPU 1")]})],
            "device",
            id="of a device that is none",
        ),
        pytest.param(
            [intent(pod={"priority": 0, "shares": [share(), share()]})],
            "Duplicate value",
            id="of one container twice",
        ),
        pytest.param(
            [intent(pod={"priority": 0, "shares": [share(beside=[0])]})],
            "only the share of an init container starts beside others",
            id="beside others of one that runs on",
        ),
        pytest.param(
            [intent(pod={"priority": 0, "shares": [share(init=True, beside=[-1])]})],
            "beside",
            id="beside an absent one",
        ),
    ],
)
def test_none_is_taken(shares: ShareCluster, intents: list[Json], said: str) -> None:
    with pytest.raises(ApiError, match=said) as refused:
        shares.extender.create(f"{PATH}?dryRun=All", reservation(*intents))
    assert refused.value.status == 422


def test_one_of_two_writers_wins(shares: ShareCluster, stored: Callable[..., Json]) -> None:
    read = stored()
    ours = {**read, "spec": {"intents": [intent(1)]}}
    written = shares.extender.request("PUT", f"{PATH}/{NAME}", ours)
    with pytest.raises(ApiError) as refused:
        shares.extender.request("PUT", f"{PATH}/{NAME}", {**read, "spec": {"intents": [intent(2)]}})
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    both = {**written, "spec": {"intents": [intent(1), intent(2)]}}
    assert shares.extender.request("PUT", f"{PATH}/{NAME}", both)["spec"]["intents"] == [intent(1), intent(2)]


def test_one_of_two_creators_wins(shares: ShareCluster, stored: Callable[..., Json]) -> None:
    stored(intent(1))
    with pytest.raises(ApiError) as refused:
        shares.extender.create(PATH, reservation(intent(2)))
    assert (refused.value.status, refused.value.reason) == (409, "AlreadyExists")


def test_an_object_that_went_is_not_written_again(shares: ShareCluster, stored: Callable[..., Json]) -> None:
    """A node that was removed and came back has another object: intents in the old one are void."""
    read = stored(intent(1))
    shares.api.delete(f"{PATH}/{NAME}")
    stored()
    with pytest.raises(ApiError) as refused:
        shares.extender.request("PUT", f"{PATH}/{NAME}", {**read, "spec": {"intents": []}})
    assert refused.value.status == 409


def test_a_reservation_goes_with_its_node(shares: ShareCluster) -> None:
    made = shares.api.create("/api/v1/nodes", {"metadata": {"name": "short-lived"}})
    owner = {"apiVersion": "v1", "kind": "Node", "name": "short-lived", "uid": made["metadata"]["uid"]}
    body = reservation(intent())
    body["metadata"] = {"name": "short-lived", "ownerReferences": [owner]}
    shares.extender.create(PATH, body)
    shares.api.delete("/api/v1/nodes/short-lived")
    eventually(lambda: not shares.api.items(PATH), "the reservation is collected")


def test_users_see_binds_in_progress(shares: ShareCluster, stored: Callable[..., Json]) -> None:
    stored(intent(7, extender="one"), intent(8))
    header, row = shares.plane.kubectl("get", "gpureservations").splitlines()
    assert header.split() == ["NAME", "NAMESPACE", "POD", "EXTENDER", "AGE"]
    assert row.split()[:4] == [NAME, "default", "pod-7", "one"]


GPUS = "gpu.scheduler-ext.io"


@pytest.mark.parametrize(
    ("may", "verb", "what"),
    [
        *(
            pytest.param(True, verb, {"group": GPUS, "resource": "gpureservations"}, id=f"it may {verb} them")
            for verb in ("get", "list", "watch", "create", "update")
        ),
        pytest.param(
            True, "get", {"resource": "pods"}, id="it reads a pod after a Binding without an answer"
        ),
        pytest.param(True, "create", {"resource": "pods", "subresource": "binding"}, id="it binds"),
        pytest.param(False, "update", {"resource": "pods"}, id="it changes no pod"),
        pytest.param(False, "patch", {"resource": "pods"}, id="in no way"),
        pytest.param(
            True, "patch", {"resource": "nodes", "subresource": "status"}, id="it advertises shares"
        ),
        pytest.param(False, "update", {"resource": "nodes", "subresource": "status"}, id="by patches only"),
        pytest.param(
            True, "watch", {"group": "policy", "resource": "poddisruptionbudgets"}, id="it knows budgets"
        ),
        pytest.param(False, "create", {"resource": "pods", "subresource": "eviction"}, id="it evicts no pod"),
        pytest.param(False, "update", {"group": GPUS, "resource": "gpunodes"}, id="it writes no GPUNodes"),
    ],
)
def test_the_rights_of_the_extender(shares: ShareCluster, may: bool, verb: str, what: Json) -> None:
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = shares.extender.create(reviews, {"spec": {"resourceAttributes": {"verb": verb, **what}}})
    assert asked["status"]["allowed"] is may
