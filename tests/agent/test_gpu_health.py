"""Unhealthy GPUs: the conditions, the report, and the remedy."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field

import pytest

from scheduler_ext.agent.gpu_health import XIDS, GpuHealth
from scheduler_ext.agent.node_reading import DeviceReading
from scheduler_ext.wire.gpunode import HealthStatus
from tests.pages import page

LOST = "GPU is lost"
LOST_NOW = "GPU is lost; needs a reset or a reboot of the node"
DBE = "XID 48: double-bit ECC error; needs a GPU reset"
FELL = "XID 79: GPU has fallen off the bus; needs a reboot of the node"
REMAP = "XID 63: row remapping or page retirement"
ECC = "uncorrectable ECC error"
DAYS_S = 30 * 86400.0
# 2026-11-21T07:00:00Z
WALL = 1795244400.0
# One that a reset cures, and one that only a reboot cures.
LASTING = (48, 79)


def gpu(
    *xids: int,
    uuid: str = "GPU-a",
    faults: tuple[str, ...] = (),
    ecc: int = 0,
    pending: bool | None = False,
    action: int | None = None,
) -> DeviceReading:
    """A reading; by itself one of a well GPU that waits for nothing."""
    waits = True if faults == (LOST,) or action else pending
    return DeviceReading(
        uuid, 0, 81920, xids=xids, faults=faults, ecc_errors=ecc, recovery_action=action, reset_pending=waits
    )


@dataclass
class Patient:
    """A GPU, its agent's knowledge, and a clock; agents may be restarted."""

    health: GpuHealth = field(default_factory=GpuHealth)
    now: float = 0.0
    last: HealthStatus = field(default_factory=HealthStatus)

    def sees(
        self, reading: DeviceReading, after_s: float = 5.0, repaired_at: float | None = None
    ) -> str | None:
        """Why it cannot be used by the next reading, so long after the last one."""
        self.now += after_s
        self.last = self.health.judge(reading, self.now, WALL + self.now, repaired_at)
        assert (self.last.state == "Unhealthy") == (self.last.reason is not None)
        return self.last.reason

    def restart(self) -> None:
        """Another agent, which knows the last report only."""
        self.health = GpuHealth()
        self.health.remember("GPU-a", self.last, self.now)


@pytest.fixture
def patient() -> Patient:
    return Patient()


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        pytest.param(gpu(), None, id="a quiet GPU"),
        pytest.param(gpu(13, 31, 43, 45, 68, 94, 109), None, id="XIDs of applications do not count"),
        pytest.param(gpu(31, 48, 95), DBE, id="the first of a kind"),
        pytest.param(gpu(48, 79), FELL, id="the one with the stronger cure"),
        pytest.param(gpu(faults=(LOST,)), LOST_NOW, id="a lost GPU"),
        pytest.param(
            gpu(faults=("row remapping failed",)),
            "row remapping failed; the GPU has to be replaced",
            id="a failed row remap",
        ),
        pytest.param(
            gpu(faults=("page retirement pending",)),
            "page retirement pending; needs a GPU reset",
            id="pages that wait for a reset",
        ),
        pytest.param(gpu(63, faults=(LOST,)), LOST_NOW, id="present errors come before past ones"),
        pytest.param(gpu(ecc=2), ECC, id="an ECC error"),
        pytest.param(gpu(48, ecc=2), DBE, id="its XID says more"),
        pytest.param(gpu(action=1), "the driver asks for a GPU reset", id="a driver that asks for a reset"),
        pytest.param(gpu(action=2), "the driver asks for a reboot of the node", id="for a reboot"),
        pytest.param(gpu(action=99), "the driver asks for recovery action 99", id="for something new"),
    ],
)
def test_the_signs_by_which_a_gpu_is_judged(
    patient: Patient, device: DeviceReading, reason: str | None
) -> None:
    assert patient.sees(device) == reason


@pytest.mark.parametrize("xid", XIDS)
def test_every_xid_has_a_reason_in_words_that_names_its_cure(patient: Patient, xid: int) -> None:
    text, cure = XIDS[xid]
    words = {"Quiet": "", "GPUReset": "; needs a GPU reset", "Reboot": "; needs a reboot of the node"}[cure]
    assert patient.sees(gpu(xid)) == f"XID {xid}: {text}{words}"
    assert (patient.last.recovery, patient.last.last_error_at) == (cure, "2026-11-21T07:00:05Z")


class TestSilence:
    """Errors that end after some minutes without another."""

    @pytest.mark.parametrize(
        ("told", "at", "reason"),
        [
            pytest.param({0: gpu(63)}, 299, REMAP, id="an XID is not forgotten at once"),
            pytest.param({0: gpu(63)}, 300, None, id="after five quiet minutes it is"),
            pytest.param(
                {0: gpu(63), 200: gpu(31)}, 300, None, id="an application's XID does not prolong it"
            ),
            pytest.param(
                {0: gpu(63), 200: gpu(ecc=1)}, 499, REMAP, id="another error does, by the first reason"
            ),
            pytest.param({0: gpu(63), 400: gpu(), 401: gpu(ecc=1)}, 402, ECC, id="a new error after that"),
            pytest.param(
                {0: gpu(faults=(LOST,)), 5000: gpu(faults=(LOST,))}, 5299, LOST_NOW, id="from its last fault"
            ),
            pytest.param({0: gpu(63, uuid="GPU-b")}, 1, None, id="another GPU's XID"),
        ],
    )
    def test_silence_cures_transient_errors(
        self, told: dict[float, DeviceReading], at: float, reason: str | None
    ) -> None:
        health = GpuHealth()
        for now, device in told.items():
            health.judge(device, now)
        assert health.judge(gpu(), at).reason == reason

    @pytest.mark.parametrize("xid", LASTING)
    def test_silence_cures_no_broken_gpu(self, patient: Patient, xid: int) -> None:
        reason = patient.sees(gpu(xid))
        assert patient.sees(gpu(), DAYS_S) == reason
        patient.restart()
        assert patient.sees(gpu(pending=None), DAYS_S) == reason


RESETS = [
    pytest.param((gpu(faults=(LOST,)),), id="a lost GPU that is back"),
    pytest.param((gpu(pending=True),), id="rows that are remapped now"),
    pytest.param((gpu(action=1),), id="a driver that asked for it"),
    pytest.param((gpu(action=4), gpu(pending=None), gpu(action=1)), id="in several steps"),
    pytest.param((gpu(pending=True), gpu(pending=None)), id="that is unreadable for a while"),
]


class TestReset:
    """NVML shows that a GPU waits for a reset, and then that it does not any more."""

    @pytest.mark.parametrize("signs", RESETS)
    @pytest.mark.parametrize("restarted", [False, True])
    @pytest.mark.parametrize("xid", LASTING)
    def test_a_reset_repairs_the_errors_that_it_can(
        self, patient: Patient, xid: int, restarted: bool, signs: tuple[DeviceReading, ...]
    ) -> None:
        patient.health.recover_after_s = 0
        reason = patient.sees(gpu(xid))
        for sign in signs:
            assert patient.sees(sign) == reason
        if restarted:
            patient.restart()
        assert patient.sees(gpu()) == (None if XIDS[xid][1] == "GPUReset" else reason)

    def test_the_wait_is_reported_of_a_healthy_gpu_too(self, patient: Patient) -> None:
        assert patient.sees(gpu(pending=True)) is None
        assert patient.last == HealthStatus("Healthy", reset_pending=True)
        patient.restart()
        # It began before this agent did.
        assert patient.sees(gpu(48, pending=None)) == DBE
        assert patient.last.reset_pending
        assert patient.sees(gpu()) is None

    def test_an_error_that_comes_with_its_end_counts(self, patient: Patient) -> None:
        patient.sees(gpu(48, pending=True))
        assert patient.sees(gpu(119)) == "XID 119: GSP does not answer; needs a GPU reset"

    def test_a_request_of_the_driver_ends_with_the_reset(self, patient: Patient) -> None:
        for action in (1, 2, 3, 7):
            assert patient.sees(gpu(action=action)) is not None
            assert patient.last.last_error_at is None
            patient.restart()
            assert patient.sees(gpu(action=0)) is None

    def test_a_gpu_that_never_waited_had_none(self, patient: Patient) -> None:
        patient.sees(gpu(48, pending=None))
        assert patient.sees(gpu(), DAYS_S) == DBE


class TestRepair:
    """An operator's annotation."""

    @pytest.mark.parametrize("restarted", [False, True])
    @pytest.mark.parametrize("xid", [63, *LASTING])
    def test_a_repair_ends_every_earlier_error(self, patient: Patient, xid: int, restarted: bool) -> None:
        reason = patient.sees(gpu(xid, ecc=1))
        at = WALL + patient.now
        if restarted:
            patient.restart()
        assert patient.sees(gpu(), 5, at - 1) == reason
        assert patient.sees(gpu(), 5, at) is None
        assert patient.sees(gpu(), 5) is None

    def test_a_repair_ends_no_later_error(self, patient: Patient) -> None:
        patient.sees(gpu(48))
        at = WALL + patient.now
        assert patient.sees(gpu(79), 5, at) == FELL
        patient.restart()
        assert patient.sees(gpu(), 5, at) == FELL

    @pytest.mark.parametrize("now", [gpu(faults=(LOST,)), gpu(action=1)])
    def test_a_repair_does_not_end_a_present_error(self, patient: Patient, now: DeviceReading) -> None:
        assert patient.sees(now, 5, WALL + 99) is not None


class TestAnAgentBefore:
    """A report of an older agent of the same boot, which said less."""

    @pytest.mark.parametrize(
        ("reason", "lasting"),
        [
            pytest.param("XID 48: double-bit ECC error", DBE, id="an XID that a reset cures"),
            pytest.param("XID 79: GPU has fallen off the bus", FELL, id="an XID that a reboot cures"),
            pytest.param("XID 63: row remapping or page retirement", None, id="an XID that silence cures"),
            pytest.param("GPU is lost", None, id="a fault"),
            pytest.param(None, None, id="no reason"),
        ],
    )
    def test_the_health_reported_by_an_earlier_agent_is_taken_over(
        self, patient: Patient, reason: str | None, lasting: str | None
    ) -> None:
        patient.last = HealthStatus("Unhealthy", reason)
        patient.restart()
        assert patient.sees(gpu()) == (lasting or reason or "GPU cannot be read")
        assert patient.sees(gpu(), 300) == lasting

    def test_an_xid_of_a_newer_one(self, patient: Patient) -> None:
        patient.last = HealthStatus("Unhealthy", "XID 999: new; needs a GPU reset", "GPUReset")
        patient.restart()
        assert patient.sees(gpu(), DAYS_S) == patient.last.reason

    def test_an_earlier_report_is_at_most_as_old_as_its_errors(self) -> None:
        health = GpuHealth()
        health.remember("GPU-a", HealthStatus("Unhealthy", "XID 48: double-bit ECC error"), 0, WALL)
        assert health.judge(gpu(), 5, WALL + 5, WALL - 1).reason == DBE
        assert health.judge(gpu(), 5, WALL + 5, WALL).reason is None


def test_an_xid_that_changes_nothing_is_logged_once(
    patient: Patient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        patient.sees(gpu(31, 12345, 31, 48))
    assert caplog.messages == [
        f"GPU-a: XID {xid} changes nothing by itself; it is logged once" for xid in (31, 12345)
    ]


def test_the_reference_has_the_table() -> None:
    rows = re.findall(r"^\| ([0-9]+) \| ([^|]+) \| [^|]+ \| ([^|]+) \|$", page("health"), re.MULTILINE)
    words = {"silence": "Quiet", "GPU reset": "GPUReset", "reboot": "Reboot"}
    assert {int(xid): (text, words[cure]) for xid, text, cure in rows} == dict(XIDS)
