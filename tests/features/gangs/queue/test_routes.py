"""GET /queue, and the page's queue."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.waiting import WaitingPods
from scheduler_ext.features.gangs.queue.queue_list import QueueView
from scheduler_ext.features.gangs.queue.routes import queue_blueprint
from scheduler_ext.features.gangs.queue.start_estimates import StartEstimates
from scheduler_ext.server.app import inspect_app
from scheduler_ext.wire.config import Configuration
from tests.features.gangs.queue import test_queue_list as queues
from tests.server.test_shared_answers import check_shared

CONFIG = Configuration()


@pytest.mark.parametrize(
    ("path", "listed", "total", "last"),
    [
        pytest.param("/queue", 202, 202, "other", id="all"),
        pytest.param("/queue?namespace=ml", 1, 1, "other", id="of one namespace"),
        pytest.param("/page/queue?namespace=", 200, 202, "w199", id="the first of the page"),
    ],
)
def test_the_queue(path: str, listed: int, total: int, last: str) -> None:
    elsewhere = queues.waits("other")
    elsewhere["metadata"]["namespace"] = "ml"
    pods = [queues.waits(f"w{i:03}", since_s=500 - i) for i in range(201)]
    source = queues.Followed(queues.cluster(*pods, elsewhere))
    record = source.moment.record
    waiting = WaitingPods(source, record, Explainer(source, record, CONFIG))
    view = QueueView(source, waiting.lines, StartEstimates(source, CONFIG, 60.0))
    listing: Any = inspect_app(queue_blueprint(view)).test_client().get(path).json
    assert listing["kind"] == "QueueList"
    assert (len(listing["items"]), listing["total"]) == (listed, total)
    assert listing["items"][-1]["name"] == last


@pytest.mark.parametrize("path", ["/queue", "/page/queue"])
def test_requests_that_wait_share_one_answer(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    check_shared(monkeypatch, path, QueueView, "listed")
