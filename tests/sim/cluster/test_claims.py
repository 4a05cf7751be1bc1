"""simulate cluster: pods with ResourceClaims, and who is evicted for a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scheduler_ext.sim.cluster.simulation import simulate
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_pods
from tests.dra_objects import WHOLE, device_class, gpu_device, request, resource_claim, resource_slice
from tests.explain.test_claims import by_claim
from tests.kube_objects import Json, gpu, gpu_node, inventory, node, pod
from tests.views.seen import state


def placed(pods: Sequence[Json], *objects: Json) -> list[Json]:
    """The outcome of these pods, one after the other."""
    items: list[Json] = simulate(read_pods(inventory(*pods)), state(*objects), Configuration())["items"]
    return items


def test_pods_that_share_a_claim_share_its_device() -> None:
    objects = [device_class(), resource_claim("shared", request())]
    for name in ("a", "b"):
        objects += [node(name), resource_slice(name, [gpu_device(0, node=name)])]
    sharing = [by_claim(f"p{i}", "shared") for i in range(3)]
    places = [item["node"] for item in placed([*sharing, pod("alone", {WHOLE: "1"})], *objects)]
    assert places[0] == places[1] == places[2]
    assert {*places} == {"a", "b"}


HELD = resource_claim("held", on="n", devices=["gpu-0"], pod="low")


@pytest.mark.parametrize(
    ("objects", "asks", "evicted"),
    [
        pytest.param(
            [node("n", {WHOLE: "1"}), gpu_node("n", [gpu(0)]), pod("low", {WHOLE: "1"}, on="n")],
            {WHOLE: "1"},
            ["default/low"],
            id="a device plugin's GPU",
        ),
        pytest.param(
            [node("n"), resource_slice("n", [gpu_device(0)]), HELD, by_claim("low", "held", on="n")],
            {WHOLE: "1"},
            [],
            id="a GPU by claim, asked by its resource: kube-scheduler evicts nobody for devices",
        ),
        pytest.param(
            [
                node("n", {"cpu": "4"}),
                resource_slice("n", [gpu_device(0)]),
                pod("low", {"cpu": "3"}, on="n"),
            ],
            {WHOLE: "1", "cpu": "3"},
            ["default/low"],
            id="the CPU beside a free GPU of DRA",
        ),
    ],
)
def test_who_is_evicted(objects: list[Json], asks: Json, evicted: list[str]) -> None:
    (item,) = placed([pod("high", asks, priority=9)], device_class(), *objects)
    assert (item["node"], item["victims"]) == ("n" if evicted else None, evicted)
