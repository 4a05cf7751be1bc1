"""Objects of resource.k8s.io with wrong values: those that can be read never cost the cluster a node."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import msgspec
import pytest

from scheduler_ext.cluster.dra.device_handlers import KINDS
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.dra.device_selector import DeviceSelector
from scheduler_ext.wire.dra.resource_api import CLAIMS, CLASSES, RULES, SLICES
from tests.dra_objects import (
    DRIVER,
    device_class,
    gpu_device,
    request,
    resource_claim,
    resource_slice,
    taint_rule,
)
from tests.kube_objects import Json

WRONG: list[Any] = [
    *(None, 0, -1, 2**31, 2**63, 1.5, True, "", "x", "\u0000", "-5Gi", "1e99", "9" * 400),
    *([], {}, DRIVER, "../..", "GPU-0"),
]
PARTITIONED = {
    "consumesCounters": [{"counterSet": "set", "counters": {"slices": {"value": "2"}}}],
    "allowMultipleAllocations": True,
}


def drawn(draw: random.Random) -> tuple[str, Json]:
    """A kind, and an object of it without mistakes."""
    more = PARTITIONED if draw.random() < 0.3 else {}
    devices = [gpu_device(i) | more for i in range(3)]
    asked = request(2, f"device.attributes['{DRIVER}'].x == {draw.randrange(90)}")
    held = resource_claim(
        draw.choice("pqrs"), asked, on=draw.choice(["a", "b", "z", None]), devices=["gpu-0", "gpu-1"]
    )
    return draw.choice(
        [
            (CLASSES, device_class(draw.choice([DRIVER, "other"]))),
            (
                SLICES,
                resource_slice(
                    draw.choice("abcd"), devices, generation=draw.randrange(3), slices=draw.choice([1, 1, 2])
                ),
            ),
            (CLAIMS, held),
            (RULES, taint_rule("r", driver=DRIVER, pool="a")),
        ]
    )


def spoilt(value: Any, draw: random.Random) -> Any:
    """The value with some parts replaced, left out or repeated."""
    if draw.random() < (0.01 if isinstance(value, dict | list) else 0.06):
        return draw.choice(WRONG)
    if isinstance(value, dict):
        return {key: spoilt(each, draw) for key, each in value.items() if draw.random() > 0.03}
    if isinstance(value, list):
        parts = [spoilt(each, draw) for each in value]
        return [*parts, copy.deepcopy(draw.choice(parts))] if parts and draw.random() < 0.05 else parts
    return value


@pytest.mark.parametrize("seed", range(2))
def test_nodes_stay_known(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    draw = random.Random(seed)
    cache = Cache(60.0, 300.0, compile_selectors=DeviceSelector)
    extender = Extender(Configuration())
    for name in "abc":
        cache.update_node(name, NodeRecord(uid=name), 0.0)
    extender.replace_nodes(cache.infos())
    read = 0
    for now in range(600):
        resource, body = drawn(draw)
        kind = KINDS[resource]
        try:
            found = msgspec.json.decode(json.dumps(spoilt(body, draw)), type=kind.object)
        except msgspec.ValidationError:
            continue
        read += 1
        cache.touch_devices(kind.update(cache.devices, kind.read(found)), float(now))
        if draw.random() < 0.1 and (known := sorted(kind.known(cache.devices))):
            cache.touch_devices(kind.remove(cache.devices, draw.choice(known)), float(now))
        if draw.random() < 0.2:
            extender.update_nodes({name: cache.info(name) for name in cache.take_changes()})
    assert read > 200
    assert not caplog.records, "every node was resolved"
