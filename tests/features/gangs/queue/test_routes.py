"""The lists of the inspection listener: GET /queue and /idle, and the page's queue."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.waiting import Waiting
from scheduler_ext.features.gangs.queue.queue_list import QueueView
from scheduler_ext.features.gangs.queue.routes import queue_blueprint
from scheduler_ext.features.gangs.queue.start_estimates import StartEstimates
from scheduler_ext.server.app import inspect_app
from scheduler_ext.server.inspect_routes import questions_blueprint
from scheduler_ext.wire.config import Configuration
from tests.features.gangs.queue import test_queue_list as queues
from tests.kube_idle import CLUSTER
from tests.server.followed import Followed

CONFIG = Configuration()
UNUSED: Any = None


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
    waiting = Waiting(source, record, Explainer(source, record, CONFIG))
    view = QueueView(source, waiting.lines, StartEstimates(source, CONFIG, 60.0))
    listing: Any = inspect_app(queue_blueprint(view)).test_client().get(path).json
    assert listing["kind"] == "QueueList"
    assert (len(listing["items"]), listing["total"]) == (listed, total)
    assert listing["items"][-1]["name"] == last


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("", ["notebook", "old"], id="of all namespaces"),
        pytest.param("?namespace=prod", ["old"], id="of one namespace"),
    ],
)
def test_idle_pods(query: str, expected: list[str]) -> None:
    routes = questions_blueprint(Followed(*CLUSTER), CONFIG, UNUSED, UNUSED)
    listing: Any = inspect_app(routes).test_client().get(f"/idle{query}").json
    assert listing["kind"] == "IdlePodList"
    assert [item["name"] for item in listing["items"]] == expected
