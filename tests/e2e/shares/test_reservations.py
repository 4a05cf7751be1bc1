"""GPUReservations on the real API server: accepted and refused content, and printed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.cluster.api import Json
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
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUReservation",
        "metadata": {"name": NAME},
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
    written = [FULL, intent(1, pod={"priority": -1, "shares": [share(init=False)]})]
    assert stored(*written)["spec"]["intents"] == written


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


def of(share_of_it: Json, *others: Json, priority: int = 0) -> list[Json]:
    return [intent(pod={"priority": priority, "shares": [share_of_it, *others]})]


# Intents by what the API server says about them.
WRONG = {
    "must have at most 256 items": [intent(n) for n in range(257)],
    "podUID: Required": [{key: value for key, value in intent().items() if key != "podUID"}],
    "holds neither shares nor units": [intent(pod={"priority": 0})],
    "format int32 in spec.intents[0].pod.priority": of(share(), priority=2**31),
    "memoryMiB: Invalid": of(share(memoryMiB=1_000_001)),
    "Duplicate value": of(share(), share()),
    "only the share of an init container starts beside others": of(share(beside=[0])),
}


@pytest.mark.parametrize("said", WRONG)
def test_none_is_taken(shares: ShareCluster, said: str) -> None:
    refusal = shares.extender.refusal("POST", f"{PATH}?dryRun=All", reservation(*WRONG[said]))
    assert refusal.startswith("422 ")
    assert said in refusal


def test_users_see_binds_in_progress(shares: ShareCluster, stored: Callable[..., Json]) -> None:
    stored(intent(7, extender="one"), intent(8))
    header, row = shares.plane.kubectl("get", "gpureservations").splitlines()
    assert header.split() == ["NAME", "NAMESPACE", "POD", "EXTENDER", "AGE"]
    assert row.split()[:4] == [NAME, "default", "pod-7", "one"]
