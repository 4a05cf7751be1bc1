"""DRA in the scheduler cache."""

from __future__ import annotations

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.ledger import Cause
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.wire.device_selector import DeviceSelector
from tests.core.dra.published import GPU_CLASS, WHOLE, claim, gpu, one_slice

LABELLED = NodeRecord(uid="uid", estimate=Estimate("nvidia", canonical_model("H100"), 1))


def cache_with_node(record: NodeRecord) -> Cache:
    cache = Cache(60.0, 300.0, compile_selectors=DeviceSelector)
    cache.update_node("node", record, 0.0)
    cache.take_changes()
    return cache


def test_slices_and_claims_change_a_node() -> None:
    cache = cache_with_node(NodeRecord(uid="uid"))
    cache.touch_devices(cache.devices.update_class(GPU_CLASS), 1.0)
    assert cache.take_changes() == {}, "no node has devices yet"
    cache.touch_devices(cache.devices.update_slice(one_slice("node", [gpu(0)])), 1.0)
    assert cache.take_changes() == {"node": Cause.REPORT}
    info = cache.info("node")
    assert info is not None
    assert ([device.uuid for device in info.devices], info.by_claim(WHOLE)) == (["GPU-0"], True)
    cache.touch_devices(cache.devices.update_claim(claim("train", "gpu-0")), 1.0)
    assert cache.take_changes() == {"node": Cause.REPORT}
    info = cache.info("node")
    assert info is not None
    assert [each.key for each in info.claims] == ["default/train"]


def test_a_node_with_slices_needs_no_agent() -> None:
    cache = cache_with_node(LABELLED)
    cache.devices.update_class(GPU_CLASS)
    cache.touch_devices(cache.devices.update_slice(one_slice("node", [gpu(0)])), 1.0)
    cache.tick(1000.0)
    info = cache.info("node")
    assert info is not None
    assert info.freshness == "Fresh"
    cache.touch_devices(cache.devices.remove_slice("node-1"), 1001.0)
    info = cache.info("node")
    assert info is not None
    assert info.freshness == "Missing"


def test_slices_of_unknown_nodes_change_nothing() -> None:
    cache = cache_with_node(LABELLED)
    cache.touch_devices(cache.devices.update_slice(one_slice("other", [gpu(0)])), 1.0)
    assert cache.take_changes() == {}
