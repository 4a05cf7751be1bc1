"""Pods that ask for the GPUs of one node at once, through a device plugin and through DRA."""

from __future__ import annotations

import itertools
import json
import math
import time

import pytest

from scheduler_ext.binding.locked_cache import LockedCache, Reserved
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.dra.published import DeviceRequirements
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.dra.device_selector import DeviceSelector
from scheduler_ext.wire.node_info import node_record
from scheduler_ext.wire.objects import read_objects, read_pods
from scheduler_ext.wire.pod.cached_pod import pending_pod
from tests.core.dra.published import GPU_CLASS, IMPLICIT, WHOLE, gpu, one_slice, waiting
from tests.kube_objects import ANNOTATION, Json, inventory, names_body, node, pod

TWICE = "node(s) had GPUs that device plugin and DRA could hand out twice"
BY_PLUGIN = pod("plugin", {WHOLE: "1"})
BY_CLASS = pod("class", {IMPLICIT: "1"})
BY_CLAIM = pod("claim", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])


def serving(label: str) -> LockedCache:
    """A node with a device plugin and a DRA driver for the same two GPUs, before any pod is bound."""
    labels = {f"{ANNOTATION}handed-out-by": label} if label else {}
    (found,) = read_objects(inventory(node("n", {WHOLE: "2"}, labels=labels))).nodes.values()
    cache = Cache(math.inf, math.inf, compile_selectors=DeviceSelector)
    cache.update_node("n", node_record(found, ResourceNames()), 0.0)
    cache.devices.update_class(GPU_CLASS)
    cache.devices.update_slice(one_slice("n", [gpu(0), gpu(1)]))
    cache.devices.update_claim(waiting("mine", DeviceRequirements("gpu.nvidia.com")))
    cache.devices.settle()
    extender = Extender(Configuration())
    extender.replace_nodes(cache.infos(), claims=cache.devices)
    return LockedCache(cache, extender)


def filtered(locked: LockedCache, asking: Json) -> str | None:
    """The reason of filter; None if the node passes."""
    reply = json.loads(locked._extender.filter(names_body(asking, ["n"]), time.monotonic() + 60).body)
    refused: dict[str, str] = {**reply["FailedNodes"], **(reply["FailedAndUnresolvableNodes"] or {})}
    return refused.get("n")


def reserved(locked: LockedCache, asking: Json) -> str | None:
    """The reason of bind; None if it promises a place."""
    pending = pending_pod(read_pods(inventory(asking))[0], ResourceNames())
    found = locked.reserve(pending, "n")
    return None if isinstance(found, Reserved) else found


@pytest.mark.parametrize(
    ("label", "passes"),
    [
        pytest.param("", "plugin", id="no label: the device plugin"),
        pytest.param("device-plugin", "plugin", id="the label says device plugin"),
        pytest.param("dra", "claim class", id="the label says DRA"),
        pytest.param("both", "plugin", id="the label says nothing that is known"),
    ],
)
def test_only_one_way_passes_before_anything_is_bound(label: str, passes: str) -> None:
    """In any order: kube-scheduler asks about the second pod before the first is seen to hold a GPU."""
    pods = {"plugin": BY_PLUGIN, "class": BY_CLASS, "claim": BY_CLAIM}
    expected = {name: None if name in passes else TWICE for name in pods}
    for order in itertools.permutations(pods):
        locked = serving(label)
        assert {name: filtered(locked, pods[name]) for name in order} == expected, order
        assert {name: reserved(locked, pods[name]) for name in order if name != "claim"} == {
            name: each for name, each in expected.items() if name != "claim"
        }, order


def test_a_promise_holds_the_node_against_a_new_label() -> None:
    """A Binding is in flight while an administrator changes the label."""
    locked, labelled = serving(""), serving("dra")
    assert reserved(locked, BY_PLUGIN) is None
    with locked as cache, labelled as other:
        record = other.record("n")
        assert record is not None
        cache.update_node("n", record, 1.0)
    assert (reserved(locked, BY_CLASS), filtered(locked, BY_CLAIM)) == (TWICE, TWICE)
