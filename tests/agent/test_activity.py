"""The activity of GPUs over time, as an agent reports it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.agent.activity import Activity, ObservedGpu
from scheduler_ext.agent.holders import DeviceHolders
from scheduler_ext.agent.node_reading import DeviceReading, InstanceReading, Process, Samples
from scheduler_ext.wire.gpunode import (
    DeviceStatus,
    HolderStatus,
    InstanceStatus,
    MemoryStatus,
    MigStatus,
    XidCount,
)

NO_HOLDERS = DeviceHolders()
GPU = DeviceReading("GPU-0", 0, 81920)
ANNA, BERT = "1f2e3d4c-1111-2222-3333-444455556666", "2f2e3d4c-1111-2222-3333-444455556666"
PODS: dict[int, str | None] = {1: ANNA, 2: BERT, 3: "host"}
IDLE = Samples(0, computing=False, busy_pids=frozenset())


def busy(*pids: int, percent: int = 50) -> Samples:
    return Samples(percent, computing=True, busy_pids=frozenset(pids))


def used_by(**mib: int) -> DeviceHolders:
    uids = {"anna": ANNA, "bert": BERT}
    return DeviceHolders(tuple(HolderStatus(uid=uids[name], memory_mib=each) for name, each in mib.items()))


class Gpu:
    """One GPU, and the clock."""

    def __init__(self, pod_of: Callable[[int], str | None] | None = PODS.get) -> None:
        self.activity = Activity()
        self.pod_of = pod_of
        self.now_s = 1000.0

    def after(
        self, seconds: float, samples: Samples, held: DeviceHolders = NO_HOLDERS, **reading: object
    ) -> ObservedGpu:
        self.now_s += seconds
        device = replace(GPU, samples=samples, **reading)  # type: ignore[arg-type]
        return self.activity.observe(device, held, self.pod_of, self.now_s)


def idle_s(observed: ObservedGpu) -> int | None:
    found: int | None = observed.fields["idle_seconds"]
    return found


def pods_idle_s(observed: ObservedGpu) -> dict[str | None, int | None]:
    return {holder.uid: holder.idle_seconds for holder in observed.held.holders}


def test_each_pod_on_a_shared_gpu() -> None:
    gpu, held = Gpu(), used_by(anna=100, bert=200)
    gpu.after(0, IDLE, held)
    observed = gpu.after(60, busy(1), held)
    assert (idle_s(observed), pods_idle_s(observed)) == (0, {ANNA: 0, BERT: 60})
    # One that came later starts from there.
    assert pods_idle_s(gpu.after(60, busy(1), used_by(anna=100))) == {ANNA: 0}
    assert pods_idle_s(gpu.after(60, IDLE, held)) == {ANNA: 60, BERT: 0}


@pytest.mark.parametrize(
    ("samples", "idle"),
    [
        pytest.param(busy(3), {ANNA: 60, BERT: 60}, id="a process of the host"),
        pytest.param(busy(4), {ANNA: 0, BERT: 0}, id="a process of no known pod may be any pod's"),
        # Its use rounds to 0, its engine has no samples of processes, or DCGM saw it.
        pytest.param(busy(percent=1), {ANNA: 0, BERT: 0}, id="so may work of no known process"),
    ],
)
def test_work_of_no_pod(samples: Samples, idle: dict[str, int]) -> None:
    gpu, held = Gpu(), used_by(anna=100, bert=200)
    gpu.after(0, IDLE, held)
    assert pods_idle_s(gpu.after(60, samples, held)) == idle


@pytest.mark.parametrize(
    ("pod_of", "samples"),
    [
        pytest.param(None, busy(1), id="the host's processes are hidden"),
        pytest.param(PODS.get, Samples(50, computing=True), id="the driver has no samples of processes"),
        pytest.param(
            PODS.get,
            Samples(busy_pids=frozenset()),
            id="no utilisation shows work that is in no sample of a process",
        ),
    ],
)
def test_pods_whose_processes_cannot_be_told_apart(
    pod_of: Callable[[int], str | None] | None, samples: Samples
) -> None:
    assert pods_idle_s(Gpu(pod_of).after(0, samples, used_by(anna=1))) == {ANNA: None}


def test_work_of_an_mps_server_may_be_any_clients() -> None:
    """Of a server that no label knows of, such as one on the host."""
    gpu, held = Gpu(), used_by(anna=100)
    clients = (Process(1, 100, mps=True),)
    gpu.after(0, IDLE, held, processes=clients)
    observed = gpu.after(60, busy(3), held, processes=clients)
    assert (idle_s(observed), pods_idle_s(observed)) == (0, {ANNA: None})


def test_means_follow_about_the_last_minute() -> None:
    gpu = Gpu()
    assert gpu.after(0, Samples(100, 50, 700.4)).fields["utilization_percent"] == 100
    fields = [gpu.after(5, Samples(0, 0, 60.0)).fields for _ in range(36)]
    assert [fields[n]["utilization_percent"] for n in (0, 11, -1)] == [92, 37, 5]
    assert (fields[-1]["memory_utilization_percent"], fields[-1]["power_watts"]) == (2, 92)


def test_peaks_are_kept_while_a_container_of_the_pod_runs_again() -> None:
    gpu = Gpu()

    def peaks(held: DeviceHolders, after_s: float = 5) -> list[int | None]:
        return [holder.peak_mib for holder in gpu.after(after_s, IDLE, held).held.holders]

    assert peaks(used_by(anna=100, bert=5)) == [100, 5]
    assert peaks(used_by(anna=70, bert=6)) == [100, 6]
    assert peaks(used_by(bert=1)) == [6]
    assert peaks(used_by(anna=50), 3000) == [100]
    allocated = DeviceHolders((HolderStatus(namespace="ml", name="train"),))
    assert peaks(allocated) == [None]
    assert peaks(NO_HOLDERS, 3600) == []
    assert peaks(used_by(anna=50)) == [50], "the pod was gone"


def test_a_pod_of_an_instance_keeps_its_peak_as_long_as_kubelet_names_it() -> None:
    gpu = Gpu()
    named = HolderStatus(namespace="ml", name="train", container="main")

    def peak(holder: HolderStatus | None) -> int | None:
        instances = {} if holder is None else {"MIG-a": holder}
        found = gpu.after(5, IDLE, DeviceHolders((), instances)).held.instances.get("MIG-a")
        return found.peak_mib if found is not None else None

    assert [peak(named.but(memory_mib=mib)) for mib in (100, 70, None, 30)] == [100] * 4
    assert peak(None) is None
    assert peak(named.but(memory_mib=20)) == 20, "another pod may have the name"


def test_an_instance_has_its_own_use_and_its_holder_a_peak() -> None:
    gpu = Gpu()

    def observed(samples: Samples, mib: int) -> ObservedGpu:
        holder = HolderStatus(uid=ANNA, memory_mib=mib)
        instances = (
            InstanceReading("MIG-a", "1g.10gb", samples=samples),
            InstanceReading("MIG-b", "1g.10gb"),
        )
        return gpu.after(5, Samples(), DeviceHolders((), {"MIG-a": holder}), instances=instances)

    observed(busy(percent=30), 100)
    told = observed(Samples(0, computing=False), 50)
    assert told.instances["MIG-a"] == {"utilization_percent": 0, "idle_seconds": 5}
    assert told.instances["MIG-b"] == {"utilization_percent": None, "idle_seconds": None}
    assert told.held.instances["MIG-a"].peak_mib == 100
    assert idle_s(told) is None


def test_errors_count_since_the_boot() -> None:
    gpu = Gpu()
    gpu.after(0, IDLE, xids=(31, 43, 31))
    told = gpu.after(5, IDLE, xids=(31, 0, 10**9)).fields["xids"]
    assert [(each.xid, each.count) for each in told] == [(31, 3), (43, 1)]


WRITTEN = DeviceStatus(
    "GPU-0",
    0,
    MemoryStatus(81920),
    idle_seconds=600,
    holders=[HolderStatus(uid=ANNA, memory_mib=10, idle_seconds=500, peak_mib=900)],
    mig=MigStatus(instances=[InstanceStatus("MIG-a", "1g.10gb", idle_seconds=400)]),
)


@pytest.mark.parametrize(
    ("age_s", "gpu_idle_s", "pod_idle_s"),
    [
        pytest.param(20, 625, 525, id="a short break counts as idle"),
        pytest.param(151, 0, 0, id="after a long one, it is unknown"),
        pytest.param(-5, 0, 0, id="a report from the future says nothing"),
    ],
)
def test_a_new_agent_goes_on_from_the_last_report(age_s: int, gpu_idle_s: int, pod_idle_s: int) -> None:
    gpu = Gpu()
    gpu.activity.remember(WRITTEN, gpu.now_s, age_s)
    observed = gpu.after(5, IDLE, used_by(anna=20))
    assert (idle_s(observed), pods_idle_s(observed)) == (gpu_idle_s, {ANNA: pod_idle_s})
    assert observed.held.holders[0].peak_mib == 900


def test_a_report_that_comes_late_hides_no_work_and_no_error() -> None:
    """An agent reads GPUs before the API server gives it the last report."""
    gpu = Gpu()
    gpu.after(0, busy(1), used_by(anna=950), xids=(31, 79))
    gpu.activity.remember(WRITTEN.but(xids=[XidCount(31, 2)]), gpu.now_s + 60, 100)
    observed = gpu.after(60, IDLE, used_by(anna=20))
    assert (idle_s(observed), pods_idle_s(observed)) == (60, {ANNA: 60})
    assert observed.held.holders[0].peak_mib == 950
    assert observed.fields["xids"] == [XidCount(31, 3), XidCount(79, 1)]


@given(st.lists(st.tuples(st.floats(0, 200), st.sampled_from((True, False, None))), max_size=20))
def test_an_idle_time_is_never_longer_than_what_was_seen(samples: list[tuple[float, bool | None]]) -> None:
    gpu = Gpu()
    seen_idle_s: float | None = None
    for pause_s, computing in samples:
        observed = gpu.after(pause_s, Samples(computing=computing))
        if computing is None:
            seen_idle_s = None
        elif computing or seen_idle_s is None:
            seen_idle_s = 0.0
        else:
            seen_idle_s += pause_s
        told = idle_s(observed)
        assert (told is None) == (seen_idle_s is None)
        assert told is None or seen_idle_s is None or told <= seen_idle_s + 1e-6 < told + 1.1
