"""GET /idle of the inspection listener."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from scheduler_ext.server.app import inspect_app
from scheduler_ext.server.inspect_routes import questions_blueprint
from scheduler_ext.wire.config import Configuration
from tests.kube_idle import CLUSTER
from tests.server.followed import Followed

UNUSED: Any = None


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    routes = questions_blueprint(Followed(*CLUSTER), Configuration(), UNUSED, UNUSED)
    return inspect_app(routes).test_client()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("", ["notebook", "old"], id="of all namespaces"),
        pytest.param("?namespace=prod", ["old"], id="of one namespace"),
        pytest.param("?namespace=none", [], id="of a namespace without any"),
    ],
)
def test_the_list_of_the_command(client: FlaskClient, query: str, expected: list[str]) -> None:
    reply = client.get(f"/idle{query}")
    assert reply.status_code == 200
    listing = reply.json
    assert listing is not None
    assert listing["kind"] == "IdlePodList"
    assert [item["name"] for item in listing["items"]] == expected
