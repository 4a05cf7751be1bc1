"""Routes over the whole cluster compute one answer for the requests that wait for each other."""

from __future__ import annotations

import time
from typing import Any

import pytest
from werkzeug.test import Client

from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.server import inspect_routes
from scheduler_ext.server.http.body import BODY_RECEIVED
from scheduler_ext.server.shared_answers import SharedAnswers
from tests.server.served import served


@pytest.mark.parametrize(
    ("path", "owner", "name"),
    [
        pytest.param("/inventory", inspect_routes, "inventory_list", id="the inventory"),
        pytest.param("/pods", inspect_routes, "pod_list", id="pods"),
        pytest.param("/debug/ledger", inspect_routes, "ledger_dump", id="the ledger"),
        pytest.param("/debug/snapshot", Explainer, "snapshot_file", id="the snapshot"),
    ],
)
def test_requests_that_wait_share_one_answer(
    monkeypatch: pytest.MonkeyPatch, path: str, owner: Any, name: str
) -> None:
    check_shared(monkeypatch, path, owner, name)


def check_shared(monkeypatch: pytest.MonkeyPatch, path: str, owner: Any, name: str) -> None:
    """Requests for a path that wait for each other call this function once."""
    compute, computed = getattr(owner, name), []

    def counted(*arguments: Any, **named: Any) -> Any:
        computed.append(name)
        return compute(*arguments, **named)

    monkeypatch.setattr(owner, name, counted)
    with served() as server:
        client = Client(server.apps.inspect)
        # They come together, and have their turn one after the other.
        came = {BODY_RECEIVED: time.monotonic()}
        replies = [client.get(path, environ_overrides=came) for _ in range(30)]
        assert len(computed) == 1
        assert {(reply.status_code, reply.data) for reply in replies} == {(200, replies[0].data)}
        client.get(path)
    assert len(computed) == 2


def test_each_question_has_its_answer() -> None:
    answers = SharedAnswers[str]()
    asked_at = time.monotonic()
    assert [answers.answer(name, asked_at, name.upper) for name in "abab"] == list("ABAB")


def test_a_failure_is_no_answer() -> None:
    answers = SharedAnswers[float]()
    asked_at = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        answers.answer(None, asked_at, lambda: 1 / 0)
    assert answers.answer(None, asked_at, lambda: 2.0) == 2.0


def test_few_answers_are_kept() -> None:
    """The one that was asked for most recently, for example."""
    answers = SharedAnswers[object]()
    asked_at = time.monotonic()
    first = answers.answer(0, asked_at, object)
    last = [answers.answer(number, asked_at, object) for number in range(1, 1000)][-1]
    assert answers.answer(999, asked_at, object) is last
    assert answers.answer(0, asked_at, object) is not first
