"""When a GPU counts as unhealthy, what is said of it, and when it counts as healthy again."""

from __future__ import annotations

import re

import pytest

from scheduler_ext.agent.health import FATAL_XIDS, Health
from scheduler_ext.agent.reading import DeviceReading
from tests.pages import ROOT

LOST = "GPU is lost"
FELL = "XID 79: GPU has fallen off the bus"


def gpu(*xids: int, uuid: str = "GPU-a", faults: tuple[str, ...] = ()) -> DeviceReading:
    return DeviceReading(uuid, 0, 81920, xids=xids, faults=faults)


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        pytest.param(gpu(), None, id="a quiet GPU"),
        pytest.param(gpu(79), FELL, id="a fatal XID"),
        pytest.param(gpu(13, 31, 43, 45, 68, 94, 109), None, id="XIDs of applications do not count"),
        pytest.param(gpu(31, 48, 79), "XID 48: double-bit ECC error", id="the first fatal one of several"),
        pytest.param(gpu(12345), None, id="an XID that nobody knows"),
        pytest.param(gpu(faults=(LOST,)), LOST, id="a lost GPU"),
        pytest.param(gpu(faults=("row remapping failed",)), "row remapping failed", id="a failed row remap"),
        pytest.param(gpu(79, faults=(LOST,)), LOST, id="what is so now comes before what happened"),
    ],
)
def test_what_a_gpu_is_judged_by(device: DeviceReading, reason: str | None) -> None:
    assert Health().judge(device, 1000) == reason


@pytest.mark.parametrize("xid", FATAL_XIDS)
def test_every_fatal_xid_has_a_reason_in_words(xid: int) -> None:
    reason = Health().judge(gpu(xid), 1000) or ""
    assert reason.startswith(f"XID {xid}: ")
    assert len(reason) > len(f"XID {xid}: ")


@pytest.mark.parametrize(
    ("told", "at", "reason"),
    [
        pytest.param({0: gpu(79)}, 299, FELL, id="an XID is not forgotten at once"),
        pytest.param({0: gpu(79)}, 300, None, id="after five quiet minutes it is"),
        pytest.param({0: gpu(79), 200: gpu(31)}, 300, None, id="an application's XID does not prolong it"),
        pytest.param({0: gpu(79), 200: gpu(48)}, 499, FELL, id="another fatal one does, by the first reason"),
        pytest.param({0: gpu(79), 200: gpu(48)}, 500, None, id="and five minutes after that one it is over"),
        pytest.param({0: gpu(79), 400: gpu(), 401: gpu(48)}, 402, "XID 48: double-bit ECC error", id="anew"),
        pytest.param(
            {0: gpu(faults=(LOST,)), 5000: gpu(faults=(LOST,))}, 5299, LOST, id="counted from its last fault"
        ),
        pytest.param({0: gpu(79, uuid="GPU-b")}, 1, None, id="another GPU's XID"),
    ],
)
def test_a_gpu_recovers_by_itself(told: dict[float, DeviceReading], at: float, reason: str | None) -> None:
    health = Health()
    for now, device in told.items():
        health.judge(device, now)
    assert health.judge(gpu(), at) == reason


def test_a_gpu_that_has_recovered_stays_healthy() -> None:
    health = Health(recover_after_s=10)
    health.judge(gpu(79), 0)
    assert [health.judge(gpu(), now) for now in (9, 10, 9)] == [FELL, None, None]


def test_without_hysteresis_a_gpu_recovers_at_its_next_reading() -> None:
    health = Health(recover_after_s=0)
    assert [health.judge(gpu(79), 5), health.judge(gpu(), 5)] == [FELL, None]


def test_the_fatal_xids() -> None:
    assert set(FATAL_XIDS) == {48, 62, 63, 64, 74, 79, 95, 119, 120, 140}


def test_the_page_names_them() -> None:
    text = " ".join((ROOT / "docs" / "tasks" / "agent.md").read_text().split())
    (named,) = re.findall(r"a fatal XID: ([0-9, ]+)[,.]", text)
    assert named == ", ".join(map(str, FATAL_XIDS))


def test_an_ecc_error_counts_like_a_fatal_xid() -> None:
    health = Health()
    sick = DeviceReading("GPU-a", 0, 81920, ecc_errors=2)
    judged = [health.judge(sick, 0), health.judge(gpu(), 299), health.judge(gpu(), 300)]
    assert judged == ["uncorrectable ECC error"] * 2 + [None]
    # The XID that comes with it says more.
    assert Health().judge(DeviceReading("GPU-a", 0, 1, xids=(48,), ecc_errors=1), 0) == (
        "XID 48: double-bit ECC error"
    )
