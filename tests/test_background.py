"""Background threads: they start, stop, log their death, and take turns."""

from __future__ import annotations

import logging
from threading import Event, Thread, current_thread

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


@pytest.mark.parametrize("served", [True, False])
def test_background_work_rests_while_requests_are_served(rests: list[float], served: bool) -> None:
    with RateLimiter(lambda: served).turn():
        pass
    assert len(rests) == served


def test_a_rest_is_as_long_as_the_work_was_but_not_endless(
    rests: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([0.0, 0.01, 0.0, 100.0])
    monkeypatch.setattr("time.monotonic", lambda: next(ticks))
    rate_limiter = RateLimiter(lambda: True)
    for _ in range(2):
        with rate_limiter.turn():
            pass
    assert rests == [0.02, 0.5]


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
