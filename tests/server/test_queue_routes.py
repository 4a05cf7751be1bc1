"""GET /queue and /page/queue of the inspection listener."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.waiting import Waiting
from scheduler_ext.server.app import inspect_app
from scheduler_ext.server.queue_routes import queue_blueprint
from scheduler_ext.views.queue.queue_list import QueueView
from scheduler_ext.views.queue.start_estimates import StartEstimates
from scheduler_ext.wire.config import Configuration
from tests.views.queue.test_queue_list import Followed, cluster, waits

CONFIG = Configuration()


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    elsewhere = waits("other")
    elsewhere["metadata"]["namespace"] = "ml"
    source = Followed(cluster(*(waits(f"w{i:03}", since_s=500 - i) for i in range(201)), elsewhere))
    waiting = Waiting(source, source.moment.record, Explainer(source, source.moment.record, CONFIG))
    view = QueueView(source, waiting.lines, StartEstimates(source, CONFIG, 60.0))
    return inspect_app(queue_blueprint(view)).test_client()


@pytest.mark.parametrize(
    ("path", "listed", "total", "last"),
    [
        pytest.param("/queue", 202, 202, "other", id="all"),
        pytest.param("/queue?namespace=ml", 1, 1, "other", id="of one namespace"),
        pytest.param("/queue?namespace=none", 0, 0, None, id="of a namespace without any"),
        pytest.param("/page/queue", 200, 202, "w199", id="the first of the page"),
        pytest.param("/page/queue?namespace=", 200, 202, "w199", id="an empty namespace is all"),
    ],
)
def test_the_queue(client: FlaskClient, path: str, listed: int, total: int, last: str | None) -> None:
    reply = client.get(path)
    assert reply.status_code == 200
    listing = reply.json
    assert listing is not None
    assert listing["kind"] == "QueueList"
    assert (len(listing["items"]), listing["total"]) == (listed, total)
    assert (listing["items"][-1]["name"] if listed else None) == last
