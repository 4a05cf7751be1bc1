"""When a report is due: at once, soon, or to stay fresh."""

from __future__ import annotations

import random

import pytest

from scheduler_ext.agent.reporter import Schedule
from scheduler_ext.wire.gpunode import (
    DeviceStatus,
    HealthStatus,
    HolderStatus,
    InstanceStatus,
    MemoryStatus,
    MigStatus,
    SharingStatus,
    SummaryStatus,
    WrittenStatus,
)

TRAIN = HolderStatus(namespace="ml", name="train", container="main")
OTHER = HolderStatus(namespace="ml", name="other", container="main")
SICK = HealthStatus("Unhealthy", "GPU is lost")


def instance(uuid: str = "MIG-a", **fields: object) -> InstanceStatus:
    return InstanceStatus(uuid, "1g.10gb", start=0, size=1).but(**fields)


PLAIN = DeviceStatus(
    "GPU-a",
    0,
    MemoryStatus(81920, 500, 10_000, 0),
    health=HealthStatus("Healthy"),
    mig=MigStatus(enabled=False),
    utilization_percent=10,
    holders=[TRAIN.but(memory_mib=10_000)],
)
SLICED = PLAIN.but(holders=None, mig=MigStatus(enabled=True, instances=[instance(holder=TRAIN)]))
SMALL = PLAIN.but(memory=MemoryStatus(8192, 0, 1000), holders=None)


def status(*devices: DeviceStatus, **fields: object) -> WrittenStatus:
    return WrittenStatus(
        devices=list(devices), driver_version="570.1", cuda_version="12.8", mig_strategy="none"
    ).but(**fields)


def due_after(before: WrittenStatus, after: WrittenStatus, middle: float = 0.5) -> float:
    """The seconds since the last report after which a status is due, tried in halves."""
    schedule = Schedule(chance=lambda: middle)
    schedule.written(before, 1000)
    halves = [n / 2 for n in range(200) if schedule.due(after, 1000 + n / 2)]
    # A due report stays due.
    assert halves == [n / 2 for n in range(int(halves[0] * 2), 200)]
    return halves[0]


def used(device: DeviceStatus, used_mib: int | None, **fields: int | None) -> DeviceStatus:
    return device.but(memory=device.memory.but(used_mib=used_mib, **fields))


AT_ONCE, SOON, FRESH = 1.0, 10.0, 60.0


@pytest.mark.parametrize(
    ("before", "after", "due"),
    [
        pytest.param(status(PLAIN), status(PLAIN), FRESH, id="nothing changed"),
        pytest.param(status(PLAIN), status(PLAIN.but(health=SICK)), AT_ONCE, id="a GPU fell ill"),
        pytest.param(status(PLAIN, SMALL), status(PLAIN), AT_ONCE, id="a GPU is gone"),
        pytest.param(status(PLAIN), status(PLAIN.but(mig=SLICED.mig)), AT_ONCE, id="MIG was switched on"),
        pytest.param(
            status(SLICED),
            status(SLICED.but(mig=MigStatus(enabled=True, instances=[instance("MIG-b", holder=TRAIN)]))),
            AT_ONCE,
            id="an instance was created again",
        ),
        pytest.param(status(), status(driver_version="580.2"), AT_ONCE, id="another driver"),
        pytest.param(status(), status(cuda_version="13.0"), AT_ONCE, id="another CUDA version"),
        pytest.param(status(), status(mig_strategy="mixed"), AT_ONCE, id="another MIG strategy"),
        pytest.param(status(), status(sharing=SharingStatus("mps", 2)), AT_ONCE, id="shared from now on"),
        pytest.param(status(PLAIN), status(used(PLAIN, 11_639)), SOON, id="2 % more of a large GPU"),
        pytest.param(status(PLAIN), status(used(PLAIN, 11_638)), FRESH, id="less than 2 % more"),
        pytest.param(status(SMALL), status(used(SMALL, 1257)), SOON, id="256 MiB more of a small GPU"),
        pytest.param(status(SMALL), status(used(SMALL, 1256)), FRESH, id="2 % of a small GPU"),
        pytest.param(status(PLAIN), status(used(PLAIN, None)), SOON, id="use that is no longer known"),
        pytest.param(
            status(PLAIN), status(used(PLAIN, 10_000, unaccounted_mib=5000)), SOON, id="use of no pod"
        ),
        pytest.param(
            status(PLAIN),
            status(used(PLAIN, 10_000, unaccounted_mib=None)),
            SOON,
            id="use by unknown processes",
        ),
        pytest.param(
            status(PLAIN), status(used(PLAIN, 10_000, reserved_mib=9000)), SOON, id="the driver keeps more"
        ),
        pytest.param(status(PLAIN), status(PLAIN.but(holders=None)), SOON, id="a holder went"),
        pytest.param(
            status(PLAIN),
            status(PLAIN.but(holders=[TRAIN.but(memory_mib=20_000)])),
            SOON,
            id="a holder uses much more",
        ),
        pytest.param(
            status(SLICED),
            status(SLICED.but(mig=MigStatus(enabled=True, instances=[instance(holder=OTHER)]))),
            SOON,
            id="an instance has another holder",
        ),
        pytest.param(
            status(PLAIN),
            status(PLAIN.but(utilization_percent=99)),
            FRESH,
            id="busier, which decides nothing",
        ),
        pytest.param(
            status(), status(summary=SummaryStatus(0, 0)), FRESH, id="a summary, which is for people"
        ),
    ],
)
def test_when_a_change_is_reported(before: WrittenStatus, after: WrittenStatus, due: float) -> None:
    assert due_after(before, after) == due


def test_the_first_status_is_due() -> None:
    assert Schedule().due(status(), 0)


@pytest.mark.parametrize(("chance", "after_s"), [(0.0, 48.0), (0.5, 60.0), (1.0, 72.0)])
def test_agents_that_began_together_part(chance: float, after_s: float) -> None:
    assert due_after(status(PLAIN), status(PLAIN), chance) == after_s


def test_an_idle_node_is_written_less_than_0_02_times_a_second() -> None:
    schedule = Schedule(chance=random.Random(1).random)
    written = 0
    for now in range(0, 7200, 5):
        if schedule.due(status(PLAIN), now):
            schedule.written(status(PLAIN), now)
            written += 1
    assert 7200 * 0.01 < written < 7200 * 0.02


def test_a_slow_change_of_use_is_reported_when_it_is_large_enough() -> None:
    schedule = Schedule(chance=lambda: 1.0)
    schedule.written(status(PLAIN), 0)
    told = [second for second in range(71) if schedule.due(status(used(PLAIN, 10_000 + 60 * second)), second)]
    assert told[0] == 28
