"""Contradictions are left out in parts, so that the rest is reported."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler_ext.agent.node_status import agreeing
from scheduler_ext.wire.gpunode import DeviceStatus
from tests.kube_objects import Json, gpu, holder


def instance(uuid: str = "MIG-a", **fields: Any) -> Json:
    return {"uuid": uuid, "profile": "1g.10gb", "start": 0, "size": 1} | fields


def sliced(*instances: Json, **fields: Any) -> Json:
    return gpu(0, mig={"enabled": True, "instances": list(instances)}, **fields)


def left(*devices: Json) -> tuple[list[Json], tuple[str, ...]]:
    kept, words = agreeing([msgspec.convert(device, DeviceStatus) for device in devices])
    return [msgspec.to_builtins(device) for device in kept], words


@pytest.mark.parametrize(
    ("devices", "kept"),
    [
        pytest.param(
            [gpu(0, holders=[holder("p", memoryMiB=90_000)])],
            [gpu(0, holders=[holder("p", memoryMiB=81_920)])],
            id="a holder has all there is, not more",
        ),
        pytest.param(
            [sliced(instance("GPU-0"))],
            [gpu(0, mig={"enabled": True})],
            id="an instance that is its GPU goes",
        ),
        pytest.param(
            [gpu(0, mig={"enabled": False, "instances": [instance()]})],
            [gpu(0, mig={"enabled": False})],
            id="instances without MIG go",
        ),
        pytest.param(
            [sliced(instance()), sliced(instance(), uuid="GPU-1") | {"index": 1}],
            [sliced(instance()), gpu(1, mig={"enabled": True})],
            id="of an instance on two GPUs the first stays",
        ),
    ],
)
def test_the_parts_of_a_contradictory_report_that_stay(devices: list[Json], kept: list[Json]) -> None:
    found, words = left(*devices)
    assert found == kept
    assert len(words) == 1
    assert "contradicts itself" in words[0]


def test_a_consistent_device_stays_as_it_is() -> None:
    device = msgspec.convert(sliced(instance()), DeviceStatus)
    kept, words = agreeing([device])
    assert kept == [device]
    assert kept[0] is device
    assert words == ()
