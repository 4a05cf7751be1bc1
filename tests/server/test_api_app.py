"""The API under another WSGI server, which provides a stream in place of a body."""

from __future__ import annotations

import json
import time
from typing import cast

import pytest
from flask import Flask
from werkzeug.test import EnvironBuilder

from scheduler_ext.binding.binder import Binder
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.extender import Extender
from scheduler_ext.server.app import ANSWER, api_app
from scheduler_ext.server.http.body import BODY, BODY_RECEIVED, BodyError, BodyTooLarge
from scheduler_ext.server.metrics.registry import Metrics
from scheduler_ext.server.serving import Serving
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.wire.config import Configuration
from tests.server.process.product import GOOD, INVENTORY, samples_of
from tests.server.served import loaded

LIMIT = 100_000


@pytest.fixture(scope="module")
def api() -> Flask:
    config = Configuration()
    extender = Extender(config)
    metrics = Metrics(loaded(INVENTORY, extender, config), config)
    return api_app(extender, None, metrics, LIMIT, 60.0, Serving())


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        pytest.param(BodyError(400, "it ended early"), 400, "it ended early", id="truncated"),
        pytest.param(BodyTooLarge(LIMIT + 1), 413, f"larger than {LIMIT} bytes", id="too large"),
        pytest.param(b"", 400, "body: empty", id="empty"),
    ],
)
def test_a_missing_body_is_refused_with_its_reason(
    api: Flask, body: bytes | BodyError, status: int, problem: str
) -> None:
    received = {BODY: body, BODY_RECEIVED: time.monotonic()}
    reply = api.test_client().post("/filter", environ_overrides=received)
    assert reply.status_code == status
    assert problem in reply.get_json()["error"]


def test_the_names_asked_about_live_on_in_the_environ(api: Flask) -> None:
    environ = EnvironBuilder("/filter", method="POST", data=GOOD).get_environ()
    list(api(environ, lambda status, headers, exc_info=None: lambda piece: None))
    assert environ[ANSWER].args.names == json.loads(GOOD)["NodeNames"]


class Recorder:
    """Binds no pod, and records its deadline."""

    deadline_s = 4000.0

    deadline = 0.0

    def bind(self, body: bytes, deadline: float) -> Answer:
        self.deadline = deadline
        return Answer(b"{}", 1, 1)


@pytest.mark.parametrize("decision_deadline_s", [0.5, 9000.0])
def test_a_bind_has_its_own_deadline(decision_deadline_s: float) -> None:
    config = Configuration()
    extender = Extender(config)
    source = InventorySource(INVENTORY, extender, config.resource_names())
    binder = Recorder()
    app = api_app(
        extender, cast(Binder, binder), Metrics(source, config), LIMIT, decision_deadline_s, Serving()
    )
    received = {BODY: b"{}", BODY_RECEIVED: 1000.0}
    assert app.test_client().post("/bind", environ_overrides=received).status_code == 200
    assert binder.deadline == 5000.0


def test_time_counts_from_the_last_byte_of_a_request() -> None:
    config = Configuration()
    extender = Extender(config)
    metrics = Metrics(loaded(INVENTORY, extender, config), config)
    app = api_app(extender, None, metrics, LIMIT, 60.0, Serving())
    for age_s, status in ((30.0, 200), (90.0, 503)):
        received = {BODY: GOOD, BODY_RECEIVED: time.monotonic() - age_s}
        reply = app.test_client().post("/filter", environ_overrides=received)
        assert reply.status_code == status
        samples = samples_of(b"".join(metrics.render()).decode())
        taken = f'gpu_extender_request_duration_seconds_sum{{code="{status}",verb="filter"}}'
        assert samples[taken] >= age_s
    assert "deadline exceeded" in reply.get_json()["error"]
    # Only answers count.
    assert samples['gpu_extender_request_nodes_count{direction="in",verb="filter"}'] == 1
