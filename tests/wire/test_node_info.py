"""GPUs of a Node object: amounts, labels' limits, and whether the node stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.node.estimate import NO_CAPS, Caps
from scheduler_ext.core.node.unreported import lacks_agent
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.kube import NodeObject
from scheduler_ext.wire.node_info import node_record
from scheduler_ext.wire.watching import Decoder
from tests.kube_objects import GFD_H100, SHARE, Json, node

WHOLE, SLICE, ONE_G = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"


def record(found: Json) -> NodeRecord:
    (read,) = Decoder(NodeObject).page(json.dumps({"items": [found]}).encode()).items
    return node_record(read, ResourceNames())


def test_a_gpu_node() -> None:
    found = record(node("a", {WHOLE: "8"}, labels=GFD_H100))
    assert (found.uid, found.allocatable) == ("uid-a", {WHOLE: 8})
    assert found.caps == Caps(8, 81559, "H100-80GB")
    assert found.estimate is not None
    assert (found.estimate.vendor, found.estimate.count) == ("nvidia", 8)
    assert (found.share_node, found.spot, found.changing) == (False, False, False)


def test_a_node_without_gpus() -> None:
    assert record(node("a")) == NodeRecord("uid-a", {}, cpu_milli=64_000)
    assert record({"metadata": {"name": "a"}}) == NodeRecord(None, {})


AGENT = "gpu.scheduler-ext.io/agent"
SHARED = {"gpu.scheduler-ext.io/sharing": "memory"}


@pytest.mark.parametrize(
    ("amounts", "labels", "unlabelled"),
    [
        pytest.param({WHOLE: "8"}, {}, True, id="a device plugin and nothing else"),
        pytest.param({"nvidia.com/mig-1g.10gb": "7"}, {}, True, id="MIG instances alone"),
        pytest.param({WHOLE: "0"}, {}, False, id="a device plugin that has none"),
        pytest.param({}, SHARED, True, id="a node for memory shares, which has no device plugin"),
        pytest.param({}, SHARED | {AGENT: "false"}, False, id="one that an administrator wants no agent on"),
        pytest.param(
            {}, SHARED | {"amd.com/gpu.product-name": "MI300X"}, False, id="one with GPUs of another vendor"
        ),
        pytest.param({"amd.com/gpu": "8"}, {}, False, id="another vendor's, which has no agent"),
        pytest.param({}, {}, False, id="no GPUs"),
        pytest.param({WHOLE: "8"}, {"nvidia.com/gpu.present": "true"}, False, id="the GPU Operator's"),
        pytest.param({WHOLE: "8"}, {"nvidia.com/gpu.present": "false"}, True, id="a label that says no"),
        pytest.param({WHOLE: "8"}, {AGENT: "later"}, False, id="an administrator's, of any value"),
    ],
)
def test_nodes_that_no_label_brings_an_agent_to(amounts: Json, labels: Json, unlabelled: bool) -> None:
    found = record(node("a", amounts, labels=labels))
    assert lacks_agent(found.info("a", None), has_nvidia=found.has_nvidia) is unlabelled


A10 = {"nvidia.com/gpu.product": "NVIDIA-A10"}


@pytest.mark.parametrize(
    ("amounts", "labels", "expected"),
    [
        pytest.param({WHOLE: "4"}, {}, ("none", 4, 1, "none"), id="whole GPUs"),
        pytest.param({WHOLE: "4", ONE_G: "7"}, {}, ("none", 4, 1, "mixed"), id="instances beside them"),
        pytest.param({ONE_G: "7"}, {}, ("none", 0, 1, "mixed"), id="MIG instances alone"),
        pytest.param({ONE_G: "0"}, {}, None, id="instances that are gone"),
        pytest.param({SLICE: "10"}, {}, ("time-slicing", 1, 10, "none"), id="slices, of one GPU at least"),
        pytest.param({ONE_G + ".shared": "14"}, {}, ("time-slicing", 0, 1, "mixed"), id="shared instances"),
        pytest.param({WHOLE: "4", SLICE: "10"}, {}, ("none", 4, 1, "none"), id="whole GPUs beside slices"),
        pytest.param(
            {ONE_G: "7", ONE_G + ".shared": "14"}, {}, ("none", 0, 1, "mixed"), id="instances beside shared"
        ),
        pytest.param({SLICE: "0"}, {}, None, id="no slice any more"),
        pytest.param(
            {SLICE: "40"},
            A10 | {"nvidia.com/gpu.count": "4"},
            ("time-slicing", 4, 10, "none"),
            id="a label that counts the GPUs",
        ),
        pytest.param(
            {SLICE: "40"},
            {"node.kubernetes.io/instance-type": "g5.12xlarge"},
            ("time-slicing", 1, 40, "none"),
            id="a machine of a known model",
        ),
        pytest.param(
            {SLICE: "8"},
            A10
            | {
                "nvidia.com/gpu.count": "2",
                "nvidia.com/gpu.sharing-strategy": "mps",
                "nvidia.com/gpu.replicas": "4",
            },
            ("mps", 2, 4, "none"),
            id="a label that says how they are shared",
        ),
    ],
)
def test_an_estimate_by_the_names_of_what_the_device_plugin_offers(
    amounts: Json, labels: Json, expected: tuple[str, int, int, str] | None
) -> None:
    found = record(node("a", amounts, labels=labels)).estimate
    told = found and (found.sharing_strategy, found.count, found.replicas, found.mig_strategy)
    assert told == expected


def test_an_administrator_states_the_memory_of_gpus_that_no_other_label_tells() -> None:
    found = record(node("a", {WHOLE: "2"}, labels={"gpu.scheduler-ext.io/gpu-memory-mib": "24576"})).estimate
    assert found is not None
    assert found.memory_mib == 24576


def test_a_node_for_memory_shares_has_gpus_of_an_unknown_number() -> None:
    found = record(node("a", labels=SHARED)).estimate
    assert found is not None
    assert (found.vendor, found.model.name, found.count) == ("nvidia", "UNKNOWN", 0)


def test_slices_under_strategy_single_cap_nothing() -> None:
    labels = GFD_H100 | {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}
    assert record(node("a", labels=labels)).caps == NO_CAPS


def test_the_sharing_label() -> None:
    assert record(node("a", labels={"gpu.scheduler-ext.io/sharing": "memory"})).share_node
    assert not record(node("a", labels={"gpu.scheduler-ext.io/sharing": "none"})).share_node


@pytest.mark.parametrize(
    ("capacity", "allocatable", "advertised"),
    [
        pytest.param("81k", "81000", (81_000, 81_000), id="however it is written"),
        pytest.param("5", None, (5, None), id="a capacity that was not copied"),
        pytest.param(None, "0", (None, 0), id="an amount that a kubelet does not know"),
    ],
)
def test_advertised_shares(
    capacity: str | None, allocatable: str | None, advertised: tuple[int | None, int | None]
) -> None:
    found = node("a")
    found["status"] = {
        "capacity": {SHARE: capacity} if capacity else {},
        "allocatable": {SHARE: allocatable} if allocatable else {},
    }
    assert record(found).advertised == advertised


MIG_STATE, UPGRADE = "nvidia.com/mig.config.state", "nvidia.com/gpu-driver-upgrade-state"


def taint(key: str) -> Json:
    return {"taints": [{"key": "other", "effect": "NoExecute"}, {"key": key, "effect": "NoSchedule"}]}


@pytest.mark.parametrize(
    ("labels", "spec", "changing"),
    [
        pytest.param({MIG_STATE: "failed"}, {}, True, id="MIG is not as it is to be"),
        pytest.param({MIG_STATE: "success"}, {}, False, id="MIG was reconfigured"),
        pytest.param({UPGRADE: "drain-required"}, {}, True, id="a driver upgrade"),
        pytest.param({UPGRADE: "upgrade-done"}, {}, False, id="one that is done"),
        pytest.param({UPGRADE: "upgrade-required"}, {}, False, id="one that is planned"),
        pytest.param({}, taint("ToBeDeletedByClusterAutoscaler"), True, id="cluster-autoscaler deletes it"),
        pytest.param({}, taint("karpenter.sh/disrupted"), True, id="Karpenter deletes it"),
        pytest.param({}, taint("karpenter.sh/disruption"), True, id="an older Karpenter does"),
        pytest.param({}, taint("DeletionCandidateOfClusterAutoscaler"), False, id="a mere candidate stays"),
        pytest.param({}, {"unschedulable": True}, False, id="cordoned: kube-scheduler knows"),
    ],
)
def test_whether_a_node_is_changing_or_leaving(labels: Json, spec: Json, changing: bool) -> None:
    assert record(node("a", labels=labels, **spec)).changing is changing


def test_a_node_that_is_being_deleted_leaves() -> None:
    found = node("a")
    found["metadata"]["deletionTimestamp"] = "2026-11-21T07:13:08Z"
    assert record(found).changing


@pytest.mark.parametrize("amount", ["many", [1], {}])
def test_an_amount_that_cannot_be_read_is_named(amount: Any) -> None:
    with pytest.raises(QuantityError, match=r"^nvidia\.com/gpu: "):
        record(node("a", {WHOLE: amount}))
