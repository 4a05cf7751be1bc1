"""The loop: how it goes on, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

from scheduler_ext.agent import alive as alive_module
from scheduler_ext.agent.alive import Pulse
from scheduler_ext.agent.fake import FakeReadings, run_fake
from scheduler_ext.agent.gpu_health import GpuHealth
from scheduler_ext.agent.loop import GONE_S, RESTART, Watchdog, boot_id, run_agent
from scheduler_ext.agent.node_reading import DeviceReading, NodeReading
from scheduler_ext.agent.observer import Observer
from scheduler_ext.agent.reporter import OwnNode, Reporter
from scheduler_ext.wire.gpunode import DeviceStatus, GpuNodeStatus, HealthStatus, MemoryStatus, WrittenStatus
from tests.agent import test_observer as observed
from tests.kube_objects import gpu, gpu_node, inventory

WELL = NodeReading((DeviceReading("GPU-a", 0, 81920),))
GONE = NodeReading(WELL.devices, problem="NVML does not start: Unknown Error")


class Source(observed.Source):
    """Readings one by one; the last one stops the loop."""

    def __init__(self, readings: Iterable[NodeReading | Exception], stopped: Event) -> None:
        super().__init__()
        self._readings = list(readings)
        self._stopped = stopped

    def read(self) -> NodeReading:
        reading = self._readings.pop(0)
        if not self._readings:
            self._stopped.set()
        if isinstance(reading, Exception):
            raise reading
        return reading


class Recorder(Reporter):
    """Keeps the offered statuses, and calls back."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.offered: list[WrittenStatus] = []
        self.nodes: list[OwnNode | None] = []
        # The report of an earlier agent.
        self.written: GpuNodeStatus | None = None
        self._then = then

    def node(self) -> OwnNode | None:
        """The one that was set for this look, else one with a label."""
        known = self.nodes.pop(0) if self.nodes else OwnNode("uid", {"nvidia.com/mig.strategy": "mixed"})
        self._known = known is not None
        return known

    def begin(self, remember: Callable[[GpuNodeStatus], None]) -> bool:
        """As soon as the node is known."""
        if self._known and self.written is not None:
            remember(self.written)
        return self._known

    def offer(self, status: WrittenStatus) -> bool:
        self.offered.append(status)
        self._then()
        return True


class Rig:
    """A loop over given readings, by a clock that goes on with each look at it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.stopped = Event()
        self.recorder = Recorder()
        self.now = 0.0

    def run(self, *readings: NodeReading | Exception, step_s: float = 5, must_restart: bool = False) -> int:
        self.source = Source(readings, self.stopped)
        self.source.must_restart = must_restart

        def clock() -> float:
            self.now += step_s
            return self.now

        observer = Observer(
            self.source, self._directory / "kubelet.sock", GpuHealth(), lambda: self.now, self._directory
        )
        return run_agent(observer, self.recorder, 0, self.stopped, clock)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_every_reading_is_offered_until_it_is_stopped(rig: Rig) -> None:
    assert rig.run(WELL, WELL, WELL) == 0
    assert len(rig.recorder.offered) == 3
    assert rig.recorder.offered[0].mig_strategy == "mixed"
    assert rig.source.closed


def health(rig: Rig) -> list[HealthStatus | None]:
    """Of the first device, in each status that was offered."""
    return [status.devices[0].health for status in rig.recorder.offered if status.devices]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        pytest.param("XID 79: GPU has fallen off the bus", True, id="an error that NVML reports once"),
        pytest.param("the NVIDIA driver is not loaded", False, id="but not the node's former one"),
    ],
)
def test_a_new_agent_knows_the_errors_of_the_last_one(rig: Rig, reason: str, told: bool) -> None:
    sick = DeviceStatus("GPU-a", 0, MemoryStatus(81920), health=HealthStatus("Unhealthy", reason))
    rig.recorder.written = GpuNodeStatus(devices=[sick])
    rig.run(WELL, WELL)
    found = [(each.state, (each.reason or "").partition("; needs ")[0]) for each in health(rig) if each]
    assert found == [("Unhealthy", reason) if told else ("Healthy", "")] * 2


def test_a_node_without_any_gpu_seen_is_not_reported(rig: Rig) -> None:
    """A report without GPUs would hide those that labels describe, where the container has no library."""
    rig.run(NodeReading(problem="no library"), NodeReading(problem="no library"))
    assert rig.recorder.offered == []


@pytest.mark.parametrize(
    "call", [pytest.param("read", id="a driver"), pytest.param("close", id="a driver that is let go")]
)
def test_a_call_that_does_not_come_back_ends_it(rig: Rig, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    bitten = Event()
    monkeypatch.setattr("scheduler_ext.agent.loop._give_up", lambda after_s: bitten.set())
    waited = []
    source = Source([WELL], rig.stopped)
    returns = getattr(source, call)

    def stuck() -> object:
        waited.append(bitten.wait(60))
        return returns()

    monkeypatch.setattr(source, call, stuck)
    observer = Observer(source, Path("/nowhere"), GpuHealth())
    assert run_agent(observer, rig.recorder, 0, rig.stopped, pulse=Pulse(0.05)) == 0
    assert waited == [True]


def test_a_problem_is_said_once_and_so_is_its_end(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "scheduler_ext.agent.loop")
    rig.run(WELL, GONE, GONE, WELL, WELL)
    assert [record.getMessage() for record in caplog.records if record.name.endswith("loop")] == [
        f"no GPU of this node can be used: {GONE.problem}",
        "GPUs can be used again",
    ]


def test_a_look_that_fails_does_not_end_it(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    assert rig.run(WELL, RuntimeError("a bug"), WELL) == 0
    assert len(rig.recorder.offered) == 2
    (told,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert told.exc_info is not None


def test_a_driver_of_another_version_is_reported_before_the_end(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    assert rig.run(GONE, WELL, must_restart=True) == RESTART
    (told,) = rig.recorder.offered
    assert told.summary is not None
    assert told.summary.healthy == 0
    assert "the driver was replaced while this process ran" in caplog.text
    assert rig.source.closed


@pytest.mark.parametrize(
    ("readings", "looks", "code"),
    [
        pytest.param([WELL, *[GONE] * 100], 61, RESTART, id="five minutes after the last good reading"),
        pytest.param([WELL, *[GONE] * 59, WELL, *[GONE] * 59], 120, 0, id="a driver that comes back in time"),
        pytest.param([GONE] * 100, 100, 0, id="a node that never had a driver waits for one"),
    ],
)
def test_a_process_that_cannot_read_gpus_any_more_ends(
    rig: Rig, caplog: pytest.LogCaptureFixture, readings: list[NodeReading], looks: int, code: int
) -> None:
    assert rig.run(*readings) == code
    assert len(rig.recorder.offered) == looks
    assert rig.source.closed
    assert (f"no GPU could be read for {GONE_S:g} s" in caplog.text) == (code == RESTART)


class TestFake:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "gpus.json"
        path.write_bytes(inventory(*(gpu_node(name, [gpu(0)]) for name in ("a", "b", "c"))))
        return path

    @pytest.mark.parametrize(
        ("names", "reported"),
        [
            pytest.param((), ["a", "b", "c"], id="all of the file"),
            pytest.param(("c", "a"), ["a", "c"], id="those that are named"),
        ],
    )
    def test_nodes(self, file: Path, names: tuple[str, ...], reported: list[str]) -> None:
        made, stopped = Made(len(reported) * 2), Event()
        assert run_fake(FakeReadings(file, names), made.reporter(stopped), 0, stopped) == 0
        assert {name: len(one.offered) for name, one in made.reporters.items()} == dict.fromkeys(reported, 2)

    def test_a_changed_file(self, file: Path) -> None:
        made, stopped = Made(5), Event()
        made.at[2] = lambda: file.write_bytes(inventory(gpu_node("a", []), gpu_node("d", [gpu(0)])))
        assert run_fake(FakeReadings(file), made.reporter(stopped), 0, stopped) == 0
        told = {name: [len(s.devices or ()) for s in one.offered] for name, one in made.reporters.items()}
        assert told == {"a": [1, 0], "b": [1], "c": [1], "d": [1]}

    def test_a_stop_does_not_wait_for_the_end_of_the_round(self, file: Path) -> None:
        made, stopped = Made(2), Event()
        run_fake(FakeReadings(file), made.reporter(stopped), 0, stopped)
        assert list(made.reporters) == ["a", "b"]


class Made:
    """Reporters by node; stops the loop after that many reports, and runs a callback after one."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._count = 0
        self.reporters: dict[str, Recorder] = {}
        self.at: dict[int, Callable[[], object]] = {}

    def reporter(self, stopped: Event) -> Callable[[str], Reporter]:
        def make(name: str) -> Reporter:
            assert name not in self.reporters
            self.reporters[name] = Recorder(lambda: self._reported(stopped))
            return self.reporters[name]

        return make

    def _reported(self, stopped: Event) -> None:
        self.at.get(self._count, lambda: None)()
        self._count += 1
        if self._count == self._left:
            stopped.set()


class Looks(Event):
    """Thirty waits of a watchdog, each of a second; after some of them a call returns."""

    def __init__(self, pulse: Pulse, beats: tuple[int, ...]) -> None:
        super().__init__()
        self._pulse = pulse
        self._beats = beats
        self.now = 0

    def monotonic(self) -> float:
        return 1000.0 + self.now

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout == 1
        if self.now in self._beats:
            self._pulse.beat()
        self.now += 1
        return self.now > 30


@pytest.mark.parametrize(
    ("inside", "beats", "bites"),
    [
        pytest.param(True, (), 1, id="a call hangs"),
        pytest.param(False, (), 0, id="it sleeps outside of calls"),
        pytest.param(True, (9, 18, 27), 0, id="calls return"),
        pytest.param(True, (9,), 1, id="a later one hangs"),
    ],
)
def test_the_watchdog_bites_after_ten_quiet_seconds_within_calls(
    monkeypatch: pytest.MonkeyPatch, inside: bool, beats: tuple[int, ...], bites: int
) -> None:
    bitten: list[float] = []
    pulse = Pulse(10)
    looks = Looks(pulse, beats)
    monkeypatch.setattr(alive_module, "time", looks)
    watchdog = Watchdog(pulse, bitten.append)
    watchdog.stopped = looks
    if inside:
        with watchdog:
            watchdog.run()
    else:
        with suppress(ValueError), watchdog:
            raise ValueError
        watchdog.run()
    assert bitten == [10] * bites


def test_the_boot_has_a_name() -> None:
    assert len(boot_id()) == 36
    assert boot_id() == boot_id()


def test_nothing_is_offered_before_the_nodes_labels_are_known(rig: Rig) -> None:
    rig.recorder.nodes = [None, None]
    assert rig.run(WELL, WELL, WELL) == 0
    assert [status.mig_strategy for status in rig.recorder.offered] == ["mixed"]
