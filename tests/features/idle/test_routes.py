"""GET /idle."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.features.idle import routes as routes_module
from scheduler_ext.features.idle.routes import idle_blueprint
from scheduler_ext.server.app import inspect_app
from scheduler_ext.wire.config import Configuration
from tests.kube_idle import CLUSTER
from tests.server.followed import Followed
from tests.server.test_shared_answers import check_shared


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("", ["notebook", "old"], id="of all namespaces"),
        pytest.param("?namespace=prod", ["old"], id="of one namespace"),
    ],
)
def test_idle_pods(query: str, expected: list[str]) -> None:
    routes = idle_blueprint(Followed(*CLUSTER), Configuration())
    listing: Any = inspect_app(routes).test_client().get(f"/idle{query}").json
    assert listing["kind"] == "IdlePodList"
    assert [item["name"] for item in listing["items"]] == expected


def test_requests_that_wait_share_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    check_shared(monkeypatch, "/idle?namespace=a", routes_module, "idle_pod_list")
