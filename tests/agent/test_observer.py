"""An agent's observation: readings, the kubelet's answers and processes, put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler_ext.agent.gpu_health import GpuHealth
from scheduler_ext.agent.node_reading import DeviceReading, NodeReading, Process, Samples
from scheduler_ext.agent.observer import Observer
from scheduler_ext.wire.gpunode import (
    DeviceStatus,
    GpuNodeStatus,
    HealthStatus,
    HolderStatus,
    MemoryStatus,
    SharingStatus,
)
from tests.agent.fake_kubelet import FakeKubelet, devices, pod
from tests.agent.test_processes import HOST, UID, Proc

GPU = "nvidia.com/gpu"
POD_GROUP = f"0::/kubepods/besteffort/pod{UID}/0a1b"
LOST = HealthStatus("Unhealthy", "GPU is lost")
TRAIN = HolderStatus(namespace="ml", name="train", container="main")


class Source:
    """Readings that a test sets."""

    def __init__(self) -> None:
        self.reading = NodeReading(
            (
                DeviceReading(
                    "GPU-a",
                    0,
                    81920,
                    used_mib=3000,
                    samples=Samples(50, computing=True, busy_pids=frozenset({100})),
                    processes=(Process(100, 2000), Process(200, 700)),
                ),
            )
        )
        self.must_restart = False
        self.closed = False
        self.remembered: list[DeviceReading] = []

    def remember(self, devices: Iterable[DeviceReading]) -> None:
        self.remembered += devices

    def read(self) -> NodeReading:
        return self.reading

    def close(self) -> None:
        self.closed = True


class Rig:
    """A node with a source, a procfs and a kubelet that is not started yet."""

    def __init__(self, directory: Path) -> None:
        self.now = 1000.0
        self.source = Source()
        self.kubelet = FakeKubelet(directory / "kubelet.sock")
        self.kubelet.pods = [pod("train", *devices(GPU, "GPU-a"))]
        self.kubelet.offered = devices(GPU, "GPU-a")
        self.proc = Proc(directory / "proc")
        self.proc.process(100, POD_GROUP)
        self.proc.process(200, HOST)
        self._observer: Observer | None = None

    @property
    def observer(self) -> Observer:
        """Made when it is first asked for: it looks at /proc then."""
        if self._observer is None:
            self._observer = Observer(
                self.source, self.kubelet.socket, GpuHealth(), lambda: self.now, self.proc.root
            )
        return self._observer

    def gpu(self) -> DeviceStatus:
        (found,) = self.observer.observe({}).devices or []
        return found


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    built = Rig(tmp_path)
    yield built
    built.observer.source.close()
    built.kubelet.stop()


def test_names_come_from_the_kubelet_and_use_from_processes(rig: Rig) -> None:
    rig.kubelet.start()
    gpu = rig.gpu()
    assert gpu.holders == [TRAIN, HolderStatus(uid=UID, memory_mib=2000, idle_seconds=0, peak_mib=2000)]
    assert gpu.memory.unaccounted_mib == 1000


def test_in_a_pid_namespace_of_its_own_use_is_not_attributed(rig: Rig) -> None:
    rig.proc.write("2/stat", Proc.stat(2))
    rig.kubelet.start()
    gpu = rig.gpu()
    assert gpu.holders == [TRAIN]
    assert (gpu.memory.used_mib, gpu.memory.unaccounted_mib) == (3000, None)


@pytest.mark.parametrize(
    ("strategy", "idle_s"),
    [
        pytest.param("time-slicing", 60, id="another process computes, so the pod does not"),
        pytest.param("mps", None, id="the process of the MPS server may compute for the pod"),
    ],
)
def test_a_pod_is_idle_by_its_own_processes(rig: Rig, strategy: str, idle_s: int | None) -> None:
    (device,) = rig.source.reading.devices
    samples = Samples(50, computing=True, busy_pids=frozenset({200}))
    rig.source.reading = NodeReading((replace(device, samples=samples),))
    labels = {"nvidia.com/gpu.sharing-strategy": strategy, "nvidia.com/gpu.replicas": "4"}
    rig.observer.observe(labels)
    rig.now += 60
    (gpu,) = rig.observer.observe(labels).devices or []
    assert [holder.idle_seconds for holder in gpu.holders or ()] == [idle_s]


def test_sharing_comes_from_labels_and_the_kubelet(rig: Rig) -> None:
    rig.kubelet.offered = devices("nvidia.com/mig-1g.10gb", "MIG-a::0", "MIG-a::1")
    rig.kubelet.start()
    status = rig.observer.observe({})
    assert (status.mig_strategy, status.sharing) == ("mixed", SharingStatus("time-slicing", 2))
    status = rig.observer.observe({"nvidia.com/mig.strategy": "single"})
    assert status.mig_strategy == "single"


def test_the_health_of_all_gpus_is_taken_over(rig: Rig) -> None:
    rig.observer.remember(
        GpuNodeStatus(
            devices=[
                DeviceStatus("GPU-a", 0, MemoryStatus(81920), health=LOST),
                DeviceStatus("GPU-z", 1, MemoryStatus(81920), health=HealthStatus("Healthy")),
            ]
        )
    )
    assert [device.uuid for device in rig.source.remembered] == ["GPU-a", "GPU-z"]
    seen = []
    for _ in range(3):
        seen.append(rig.gpu().health)
        rig.now += 150
    reasons = [health and (health.state, health.reason) for health in seen]
    assert reasons == [(LOST.state, LOST.reason)] * 2 + [("Healthy", None)]


def test_a_gpu_that_no_report_can_have_is_left_out_and_said_once(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.source.reading = NodeReading(tuple(DeviceReading("GPU-twice", index, 81920) for index in (0, 1)))
    assert [rig.gpu().index for _ in range(3)] == [0] * 3
    said = [record.getMessage() for record in caplog.records if "node_status" in record.name]
    assert said == ["not reported: GPU 1 has the UUID of another: GPU-twice"]


def test_where_no_gpu_can_be_reported_that_is_a_problem(rig: Rig) -> None:
    rig.source.reading = NodeReading((DeviceReading("", 0, 81920),))
    rig.observer.observe({})
    assert rig.observer.problem == "no GPU has what a report needs"
