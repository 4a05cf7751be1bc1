"""Numbers and instances that no GPU has refuse a report; the largest that one may have do not."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.core.errors import ImpossibleReportError
from tests.kube_objects import Json, gpu, holder
from tests.wire.reports.gpunode_status import FULL, read, report_of


def memory(**fields: Any) -> list[Json]:
    return [gpu(0, memory={"totalMiB": 100} | fields)]


def instance(uuid: str = "MIG-a", profile: str = "1g.10gb", **fields: Any) -> Json:
    return {"uuid": uuid, "profile": profile} | fields


def sliced(*instances: Json, **fields: Any) -> Json:
    """A GPU with these instances; `fields` has further ones."""
    return gpu(0, mig={"enabled": True, "instances": instances}) | fields


def of_profile(profile: str, count: int, **fields: Any) -> list[Json]:
    """One GPU with this many instances of a profile, at unknown places."""
    return [sliced(*(instance(f"MIG-{i}", profile, **fields) for i in range(count)))]


T4: Json = {"model": "T4", "memory": {"totalMiB": 15360}}


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        pytest.param(
            memory(usedMiB=5, unaccountedMiB=6),
            "memory.unaccountedMiB: 6 of 5 MiB that are used",
            id="more unaccounted than used",
        ),
        pytest.param(
            [gpu(0, holders=[holder("p", memoryMiB=81921)])],
            "holders[0].memoryMiB: 81921 MiB of a device of 81920",
            id="a pod with more than there is",
        ),
        pytest.param(
            [sliced(instance(holder=holder("p", memoryMiB=81921)))],
            "mig.instances[0].holder.memoryMiB: 81921 MiB of",
            id="a pod with more than there is, on an instance",
        ),
        pytest.param(
            [sliced(instance("GPU-0"))],
            "mig.instances[0].uuid: 'GPU-0' is that of devices[0].uuid",
            id="an instance that is its GPU",
        ),
        pytest.param(
            [sliced(instance(), uuid="GPU-1", index=1), sliced(instance())],
            "mig.instances[0].uuid: 'MIG-a' is that of devices[0].mig.instances[0].uuid",
            id="an instance on two GPUs",
        ),
        pytest.param(
            [gpu(0, mig={"enabled": False, "instances": [instance()]})],
            "mig.instances: a GPU whose MIG mode is off has no instances",
            id="instances without MIG",
        ),
    ],
)
def test_impossible_numbers_refuse_the_report(devices: list[Json], problem: str) -> None:
    with pytest.raises(ImpossibleReportError) as refusal:
        read({"devices": devices})
    assert str(refusal.value).startswith("GPUNode n: status.devices[")
    assert problem in str(refusal.value)


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param(memory(usedMiB=5, unaccountedMiB=5), id="a use that no pod explains"),
        pytest.param(memory(totalMiB=0), id="memory that the agent may not see"),
        pytest.param([gpu(0, holders=[holder("p", memoryMiB=81920)])], id="a pod with all of it"),
        pytest.param(
            [sliced(instance(), model="H20-141GB", memory={"totalMiB": 143771})],
            id="instances of a Hopper without reported placements",
        ),
        pytest.param(
            [gpu(0, mig=FULL["devices"][0]["mig"]) | T4], id="of a product that has placements of its own"
        ),
        pytest.param(of_profile("1c.3g.40gb", 3, size=4), id="parts of one instance, which share its units"),
    ],
)
def test_limits_are_accepted(devices: list[Json]) -> None:
    assert len(report_of({"devices": devices}).devices) == len(devices)
