"""Contradictions are left out in parts, so that the rest is reported."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_ext.agent.node_status import agreeing
from scheduler_ext.wire.gpunode import DeviceStatus
from tests.kube_objects import Json, gpu, holder
from tests.wire.reports.gpunode_status import instance


def sliced(*instances: Json, index: int = 0) -> Json:
    return gpu(index, mig={"enabled": True, "instances": list(instances)})


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
            [sliced(instance()), sliced(instance(), index=1)],
            [sliced(instance()), gpu(1, mig={"enabled": True})],
            id="of an instance on two GPUs the first stays",
        ),
    ],
)
def test_the_parts_of_a_contradictory_report_that_stay(devices: list[Json], kept: list[Json]) -> None:
    found, (words,) = agreeing([msgspec.convert(device, DeviceStatus) for device in devices])
    assert [msgspec.to_builtins(device) for device in found] == kept
    assert "contradicts itself" in words
