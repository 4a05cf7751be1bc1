"""Background work takes turns, and rests only while a request may wait."""

from __future__ import annotations

import threading

import pytest

from scheduler_ext.background import RateLimiter


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
    entered = threading.Event()

    def work() -> None:
        with rate_limiter.turn():
            entered.set()

    worker = threading.Thread(target=work)
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
