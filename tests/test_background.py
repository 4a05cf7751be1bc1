"""Background threads: they start, stop, and log their death."""

from __future__ import annotations

import logging
from threading import Event, current_thread

import pytest

from scheduler_ext.background import Background


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
