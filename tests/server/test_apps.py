"""The Flask applications under another WSGI server, which hands them a stream instead of a body."""

from __future__ import annotations

import io

import pytest
from flask import Flask

from scheduler_ext.extender.service import Extender
from scheduler_ext.extender.source import InventorySource
from scheduler_ext.server.app import api_app, health_app, inspect_app
from scheduler_ext.server.metrics import Metrics
from scheduler_ext.wire.config import Configuration
from tests.server.product import GOOD, INVENTORY

LIMIT = 100_000


@pytest.fixture(scope="module")
def apps() -> dict[str, Flask]:
    config = Configuration()
    extender = Extender(config)
    source = InventorySource(INVENTORY, extender, config.resource_names())
    source.load()
    metrics = Metrics(source)
    return {
        "api": api_app(extender, metrics, LIMIT, 60.0),
        "health": health_app(source, metrics),
        "inspect": inspect_app(),
    }


@pytest.mark.parametrize(
    ("name", "method", "path", "status"),
    [
        ("api", "POST", "/filter", 200),
        ("api", "POST", "/prioritize", 200),
        ("api", "GET", "/version", 200),
        ("api", "GET", "/filter", 405),
        ("api", "POST", "/bind", 404),
        ("health", "GET", "/livez", 200),
        ("health", "GET", "/readyz", 200),
        ("health", "GET", "/metrics", 200),
        ("health", "POST", "/livez", 405),
        ("inspect", "GET", "/debug/ledger", 404),
    ],
)
def test_every_route_reads_the_whole_body_before_it_answers(
    apps: dict[str, Flask], name: str, method: str, path: str, status: int
) -> None:
    stream = io.BytesIO(GOOD)
    reply = (
        apps[name]
        .test_client()
        .open(path, method=method, input_stream=stream, content_type="application/json")
    )
    assert reply.status_code == status
    assert stream.tell() == len(GOOD)


@pytest.mark.parametrize(
    ("announced", "sent", "status", "problem"),
    [
        pytest.param(len(GOOD) + 1, GOOD, 400, "ended before its announced length", id="truncated"),
        pytest.param(LIMIT + 1, GOOD, 413, f"larger than {LIMIT} bytes", id="too large"),
        pytest.param(0, b"", 400, "body: empty", id="empty"),
    ],
)
def test_a_body_that_is_not_there_is_refused_with_its_reason(
    apps: dict[str, Flask], announced: int, sent: bytes, status: int, problem: str
) -> None:
    length = {"CONTENT_LENGTH": str(announced)}
    client = apps["api"].test_client()
    reply = client.post("/filter", input_stream=io.BytesIO(sent), environ_overrides=length)
    assert reply.status_code == status
    assert problem in reply.get_json()["error"]
