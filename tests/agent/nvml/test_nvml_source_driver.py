"""The driver goes, comes back, or is replaced; and how often NVML is initialised meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from scheduler_ext.agent.node_reading import NO_SAMPLES
from scheduler_ext.agent.nvml_source import NvmlSource
from tests.agent.nvml_mock.fixtures import Rig
from tests.agent.nvml_mock.library import Fault
from tests.agent.nvml_mock.presets import a100_80gb_mig, h100, t4

NOT_LOADED = "the NVIDIA driver is not loaded"
MISMATCH = "the NVIDIA driver and the NVML library differ in version"


@pytest.mark.parametrize(
    ("faults", "problem", "must_restart"),
    [
        pytest.param({"nvmlInitWithFlags": 9}, NOT_LOADED, False, id="no driver"),
        pytest.param({"nvmlInitWithFlags": 18}, MISMATCH, True, id="the driver of another version"),
        pytest.param({"nvmlInitWithFlags": 999}, "NVML does not start: Unknown Error", False, id="who knows"),
        pytest.param(
            {"nvmlDeviceGetCount_v2": 999}, "NVML cannot count the GPUs: Unknown Error", False, id="no list"
        ),
    ],
)
def test_a_node_that_cannot_begin(
    rig: Rig, faults: dict[str, Fault], problem: str, must_restart: bool
) -> None:
    rig.node.faults = faults
    reading = rig.read(h100())
    assert (reading.problem, reading.devices, reading.driver_version) == (problem, (), None)
    assert rig.source.must_restart is must_restart


@pytest.mark.parametrize(
    ("code", "problem", "must_restart"),
    [
        pytest.param(9, NOT_LOADED, False, id="it is unloaded"),
        pytest.param(18, MISMATCH, True, id="it is upgraded"),
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        "*",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlEventSetWait_v2",
    ],
)
def test_the_driver_goes_under_a_running_agent(
    rig: Rig, function: str, code: int, problem: str, must_restart: bool
) -> None:
    before = rig.read(a100_80gb_mig(0), h100(1))
    rig.node.faults = {function: code}
    reading = rig.read()
    assert (reading.problem, rig.source.must_restart) == (problem, must_restart)
    known = [
        replace(
            device,
            used_mib=None,
            reserved_mib=None,
            samples=NO_SAMPLES,
            processes=None,
            recovery_action=None,
            reset_pending=None,
            instances=tuple(replace(instance, processes=None) for instance in device.instances),
        )
        for device in before.devices
    ]
    assert list(reading.devices) == known
    # A driver of another version, and everything is read again.
    rig.node.faults, rig.node.driver = {}, "580.65.06"
    rig.now_s += 5
    after = rig.read()
    assert after == replace(before, driver_version="580.65.06")
    assert not rig.source.must_restart


def test_the_next_initialisation_waits_ever_longer(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.node.faults = {"nvmlInitWithFlags": 9}
    tried = []
    for _ in range(200):
        rig.node.forget_calls()
        assert rig.read(t4()).problem == NOT_LOADED
        if rig.node.calls():
            tried.append(rig.now_s - 1000)
        rig.now_s += 1
    assert tried == [0, 5, 15, 35, 75, 135, 195]
    # The reading contains it, and its reader logs it once.
    assert caplog.messages == []
    rig.node.faults = {}
    rig.now_s = 1255
    assert rig.read().problem is None
    # And from the beginning the next time.
    rig.node.faults = {"*": 9}
    assert rig.read().problem == NOT_LOADED
    rig.node.faults = {}
    rig.now_s += 5
    assert rig.read().problem is None


def test_an_nvml_that_forgot_itself_is_initialised_at_once(rig: Rig) -> None:
    before = rig.read(a100_80gb_mig(0), h100(1))
    rig.node.forget_calls()
    rig.node.faults = {"nvmlDeviceGetMemoryInfo_v2": "1*1"}
    assert rig.read() == before
    assert rig.node.calls()["nvmlInitWithFlags"] == 1


def test_a_closed_source_leaves_nothing(rig: Rig) -> None:
    rig.read(a100_80gb_mig(0), h100(1))
    rig.source.close()
    rig.source.close()
    calls = rig.node.calls()
    assert (calls["nvmlShutdown"], calls["nvmlEventSetCreate"], calls["nvmlEventSetFree"]) == (1, 1, 1)
    assert pynvml._nvmlLib_refcount == 0


def test_a_library_that_is_not_there_yet(rig: Rig, tmp_path: Path) -> None:
    later = tmp_path / "driver" / "libnvidia-ml.so.1"
    source = NvmlSource(later, lambda: rig.now_s)
    rig.node.gpus = [t4()]
    rig.node.write()
    absent = f"{later}: cannot open shared object file: No such file or directory"
    assert source.read().problem == f"the NVML library cannot be loaded: {absent}"
    assert not source.must_restart
    later.parent.mkdir()
    shutil.copy(rig.library, later)
    rig.now_s += 5
    assert [device.uuid for device in source.read().devices] == ["GPU-t4-0"]
    source.close()


def test_the_library_is_found_by_its_name(rig: Rig) -> None:
    rig.node.gpus = [t4()]
    rig.node.write()
    program = (
        "from scheduler_ext.agent.nvml_source import NvmlSource; print(NvmlSource().read().devices[0].uuid)"
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(rig.library.parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("GPU-t4-0\n", "")


def test_a_host_without_the_library(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_library(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "CDLL", no_such_library)
    source = NvmlSource(None, lambda: rig.now_s)
    assert source.read().problem == "the NVML library is not found; is the NVIDIA driver installed?"
    monkeypatch.undo()


@pytest.mark.parametrize("function", ["nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2"])
def test_an_unreadable_version_is_absent(rig: Rig, function: str) -> None:
    rig.node.faults = {function: 999}
    reading = rig.read(t4())
    assert (reading.problem, len(reading.devices)) == (None, 1)
    assert (reading.driver_version is None) != (reading.cuda_version is None)


def garble(rig: Rig, *texts: str) -> None:
    """Make texts of the state file invalid UTF-8."""
    rig.node.write()
    state = rig.node.state.read_bytes()
    for text in texts:
        assert text.encode() in state
        state = state.replace(text.encode(), b"\xff\xfe")
    rig.node.state.write_bytes(state)


def test_text_that_is_none_is_not_readable(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    gpu = a100_80gb_mig()
    rig.node.gpus = [gpu]
    garble(rig, gpu.name, gpu.pci, rig.node.driver, "MIG 1g.10gb+me")
    for _ in range(2):
        reading = rig.source.read()
        (device,) = reading.devices
        assert (device.product, device.pci_bus_id, reading.driver_version) == (None, None, None)
        # By its size, as where the library has no names.
        assert [profile.name for profile in device.profiles] == [p.name for p in gpu.profiles]
    assert len(caplog.messages) == len(set(caplog.messages)) == 4
    assert all(text.endswith("its text is not UTF-8") for text in caplog.messages)


def test_initialisations_are_given_back_however_often_the_driver_goes(rig: Rig) -> None:
    for _ in range(3):
        rig.node.faults = {}
        assert rig.read(h100()).problem is None
        rig.node.faults = {"nvmlDeviceGetCount_v2": 9}
        assert rig.read().problem == NOT_LOADED
        rig.now_s += 5
    assert pynvml._nvmlLib_refcount == 0
    calls = rig.node.calls()
    assert calls["nvmlInitWithFlags"] == calls["nvmlShutdown"] == 3
