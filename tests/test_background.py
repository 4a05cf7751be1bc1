"""Background threads: they start, stop, log their death, and take turns."""

from __future__ import annotations

import logging
from threading import Event, Thread, current_thread
from types import SimpleNamespace

import pytest

from scheduler_ext.background import Background, RateLimiter


class Work(Background):
    """Waits until it is stopped, or raises."""

    def __init__(self, threads: int = 1, error: BaseException | None = None) -> None:
        super().__init__("work", threads)
        self.names: set[str] = set()
        self.begun = Event()
        self._error = error

    def run(self) -> None:
        self.names.add(current_thread().name)
        if len(self.names) == len(self._threads):
            self.begun.set()
        if self._error is not None:
            raise self._error
        self.stopped.wait(60)


@pytest.mark.parametrize(
    ("threads", "names"),
    [
        pytest.param(1, {"work"}, id="one thread has the name itself"),
        pytest.param(2, {"work-0", "work-1"}, id="several are numbered"),
    ],
)
def test_threads_run_until_stopped(threads: int, names: set[str]) -> None:
    work = Work(threads)
    assert not work.is_alive
    work.start()
    assert work.begun.wait(60)
    assert work.names == names
    assert work.is_alive
    work.stop(60)
    assert not work.is_alive


def test_work_that_was_never_started_can_be_stopped() -> None:
    work = Work()
    work.stop(60)
    assert not work.is_alive


@pytest.mark.dies
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("no such key"), id="an exception"),
        pytest.param(SystemExit("no such key"), id="an exit, which ends only the thread"),
    ],
)
def test_a_death_is_one_record_with_the_name_and_the_traceback(
    caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    work = Work(error=error)
    with caplog.at_level(logging.CRITICAL, logger="scheduler_ext.background"):
        work.start()
        work.join(60)
    (record,) = caplog.records
    assert record.getMessage() == "thread work died of an unexpected error"
    assert record.levelno == logging.CRITICAL
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert not work.is_alive


def test_an_orderly_end_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    work = Work()
    work.start()
    work.stop(60)
    assert caplog.records == []


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Records the rests, without their time."""
    taken: list[float] = []
    monkeypatch.setattr("time.sleep", taken.append)
    return taken


@pytest.mark.parametrize(
    ("served", "used_s", "between_s", "expected"),
    [
        pytest.param(False, 0.01, 0.0, [], id="not before requests are served"),
        pytest.param(True, 0.01, 0.0, [0.02], id="twice the processor's time of the turn"),
        pytest.param(
            True, 0.01, 0.015, [0.005], id="what is left of that after other work, such as a request"
        ),
        pytest.param(True, 0.01, 0.02, [], id="not after longer work"),
        pytest.param(True, 100.0, 0.0, [0.5], id="no longer than a stop may take"),
    ],
)
def test_a_turn_begins_after_a_rest(
    rests: list[float],
    monkeypatch: pytest.MonkeyPatch,
    served: bool,
    used_s: float,
    between_s: float,
    expected: list[float],
) -> None:
    """However long the turn before it waited for the processor."""
    clock = SimpleNamespace(now=7.0, used=0.0)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    monkeypatch.setattr("time.thread_time", lambda: clock.used)
    rate_limiter = RateLimiter(lambda: served)
    with rate_limiter.turn():
        clock.used += used_s
        clock.now += 60.0
    clock.now += between_s
    with rate_limiter.turn():
        pass
    assert rests == pytest.approx(expected)


def test_one_works_at_a_time() -> None:
    rate_limiter = RateLimiter(lambda: False)
    entered = Event()

    def work() -> None:
        with rate_limiter.turn():
            entered.set()

    worker = Thread(target=work)
    with rate_limiter.turn():
        worker.start()
        assert not entered.wait(0.05)
    worker.join(60)
    assert entered.is_set()


def test_work_that_fails_gives_its_turn_back() -> None:
    rate_limiter = RateLimiter(lambda: False)
    with pytest.raises(ValueError, match="no"), rate_limiter.turn():
        raise ValueError("no")
    with rate_limiter.turn():
        pass
