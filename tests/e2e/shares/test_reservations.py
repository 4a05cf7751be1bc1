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
            [intent(pod={"priority": 0})], "holds neither shares nor units", id="of a pod that holds nothing"
        ),
        pytest.param(
            [intent(pod={"priority": 2**31, "shares": [share()]})],
            "priority",
            id="of a priority that is none",
        ),
        pytest.param(
            [intent(pod={"priority": 0, "shares": [share(memoryMiB=1_000_001)]})],
            "memoryMiB",
            id="of more memory than there is",
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
