"""Retries of requests to the API server: soon after an outage, later for a sick server, one client at a
time.
"""

from __future__ import annotations

import itertools
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.cluster.client.availability import PROBE_S, QUIET_S, Availability
from scheduler_ext.cluster.client.retry import EARLY_EVERY_S, Backoff, Retry
from scheduler_ext.cluster.client.transport import RefusedError, SilentError, UnreachableError, UnsentError
from tests.cluster.candidates import Clock

GONE = UnsentError("refused")
SICK = RefusedError(503, "ServiceUnavailable", "")


@pytest.mark.parametrize(
    ("chance", "expected"),
    [
        pytest.param(1.0, [1, 2, 4, 8, 8, 8], id="doubled up to the most"),
        pytest.param(0.0, [0.5, 1, 2, 4, 4, 4], id="cut by a half at most"),
        pytest.param(0.5, [0.75, 1.5, 3, 6, 6, 6], id="cut by what chance says"),
    ],
)
def test_waits_grow(chance: float, expected: list[float]) -> None:
    backoff = Backoff(1.0, 8.0, lambda: chance)
    assert [backoff.wait_s() for _ in range(6)] == expected


@pytest.mark.parametrize(
    ("asked_s", "expected"),
    [
        pytest.param(20.0, 25.0, id="what the server asks, and up to a fourth more"),
        pytest.param(0.1, 1.25, id="never less than the first wait without"),
        pytest.param(1e9, 375.0, id="an absurd wish is cut"),
    ],
)
def test_retry_after_is_obeyed(asked_s: float, expected: float) -> None:
    """However often it is asked for."""
    backoff = Backoff(1.0, 8.0, lambda: 1.0)
    assert [backoff.wait_s(asked_s) for _ in range(5)] == [expected] * 5
    assert backoff.wait_s() == 1.0


@given(st.integers(1, 200), st.one_of(st.none(), st.floats(0, 1e6)))
def test_no_wait_is_zero_or_endless(failures: int, asked_s: float | None) -> None:
    backoff = Backoff()
    for _ in range(failures):
        wait_s = backoff.wait_s(asked_s)
    assert 0.25 <= wait_s <= 375
    assert asked_s is None or wait_s >= min(asked_s, 300)


class Asking:
    """Several clients of one server, which answered just now; the random wait is always the longest."""

    def __init__(self, count: int = 1) -> None:
        self.clock = Clock()
        self.server = Availability(self.clock, lambda: 1.0)
        self.server.responded()
        self.retries = [self.another() for _ in range(count)]

    def another(self, *, probes: bool = True) -> Retry:
        return Retry(self.server, Backoff(0.5, 30.0, lambda: 1.0), probes=probes, monotonic=self.clock)

    def fail(self, retry: Retry, error: Exception = GONE) -> float:
        """The length of its wait."""
        if isinstance(error, UnreachableError):
            self.server.unanswered()
        else:
            self.server.responded()
        retry.failed(error)
        return retry.left_s()

    def outage(self) -> None:
        """The server is away, and known to be."""
        self.clock.now += QUIET_S
        self.server.unanswered()
        assert self.server.away


def test_one_lost_request_beside_others_that_are_answered_is_no_outage() -> None:
    asking = Asking()
    waits = []
    for _ in range(8):
        waits.append(asking.fail(asking.retries[0]))
        asking.server.responded()
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert asking.server.returns == 0


def test_clients_of_an_unreachable_server_take_turns() -> None:
    asking = Asking(5)
    asking.outage()
    waits = [asking.fail(retry) for retry in asking.retries]
    assert waits == pytest.approx([PROBE_S * turn for turn in range(1, 6)])
    # During an outage: exactly one try in each such time.
    tries = []
    for _ in range(600):
        asking.clock.now += 0.1
        for number, retry in enumerate(asking.retries):
            if not retry.left_s():
                tries.append((asking.clock.now, number))
                asking.fail(retry)
    assert len(tries) == pytest.approx(60 / PROBE_S, abs=2)
    assert {number for _, number in tries} == set(range(5))
    gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(tries)]
    assert max(gaps) < PROBE_S + 0.2


@pytest.mark.parametrize(
    "error", [GONE, SilentError("nothing"), UnreachableError("reset")], ids=["refused", "silent", "reset"]
)
def test_the_first_answer_ends_the_wait_of_all(error: Exception) -> None:
    asking = Asking(5)
    writer = asking.another(probes=False)
    asking.outage()
    for _ in range(10):
        asking.fail(writer, error)
    for retry in asking.retries:
        assert asking.fail(retry, error) > 0
    assert writer.left_s() == 30
    asking.server.responded()
    assert [retry.left_s() for retry in (*asking.retries, writer)] == [0] * 6
    assert (asking.server.away, asking.server.returns) == (False, 1)


def test_errors_after_an_outage_are_first_errors() -> None:
    """A starting server refuses for a moment; the length of the outage does not matter there."""
    asking = Asking()
    (retry,) = asking.retries
    for _ in range(3):
        asking.fail(retry)
    asking.outage()
    asking.fail(retry)
    assert asking.fail(retry, SICK) == 0.5
    assert asking.fail(retry, SICK) == 1


def test_a_sick_server_is_left_alone_for_longer_each_time() -> None:
    asking = Asking(5)
    waits = [[asking.fail(retry, SICK) for retry in asking.retries] for _ in range(8)]
    assert waits == [[wait] * 5 for wait in (0.5, 1, 2, 4, 8, 16, 30, 30)]


def test_the_return_of_one_watch_ends_waits_after_errors_but_not_again_and_again() -> None:
    asking = Asking()
    (retry,) = asking.retries
    for _ in range(8):
        asking.fail(retry, SICK)
    asking.server.responded()
    assert retry.left_s() == 30
    asking.clock.now += 1
    asking.server.watch_is_back()
    assert retry.left_s() == 0
    # The server was back too early for this client, and comes and goes.
    assert asking.fail(retry, SICK) == 30
    tries = 0
    for _ in range(300):
        asking.clock.now += 0.1
        asking.server.watch_is_back()
        if not retry.left_s():
            tries += 1
            asking.fail(retry, SICK)
    assert tries == pytest.approx(30 / EARLY_EVERY_S, abs=1)


def test_nothing_shortens_what_the_server_asked_for() -> None:
    asking = Asking()
    (retry,) = asking.retries
    assert asking.fail(retry, RefusedError(429, "TooManyRequests", "", 20.0)) == 25
    asking.clock.now += 1
    asking.server.watch_is_back()
    asking.outage()
    asking.server.responded()
    assert retry.left_s() == pytest.approx(25 - 1 - QUIET_S)


def test_a_wait_ends_with_its_condition() -> None:
    server = Availability()
    server.unanswered()
    retry = Retry(server, Backoff(60.0, 60.0), probes=False)
    retry.failed(GONE)
    stopped = threading.Event()
    ended: list[bool] = []
    waiting = threading.Thread(target=lambda: ended.append(retry.wait(stopped)))
    waiting.start()
    server.responded()
    waiting.join(60)
    assert ended == [True]
    stopped.set()
    assert not retry.wait(stopped)
