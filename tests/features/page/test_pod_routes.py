"""The page's routes about pods, and what they refuse."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import Mock

import pytest
from flask.testing import FlaskClient

from scheduler_ext.explain import explain as explain_module
from scheduler_ext.explain.kube_verdicts import NOT_OFFERED
from scheduler_ext.features.page.pod_routes import pods_blueprint
from scheduler_ext.server import explaining as explaining_module
from scheduler_ext.server.app import inspect_app
from scheduler_ext.server.explaining import Explaining
from scheduler_ext.server.http.body import BODY_RECEIVED
from scheduler_ext.server.serving import Serving
from scheduler_ext.wire.config import Configuration, InspectionSection
from tests.explain.test_replay import Running, running
from tests.extender.test_record import ask
from tests.kube_objects import Json, gpu, gpu_node, holder, node, pod

WHOLE = "nvidia.com/gpu"


def objects() -> list[Json]:
    held = [holder("holds", "team", container="main")]
    holding = pod("holds", {WHOLE: "1"}, on="n0", priority=5)
    holding["metadata"] |= {"namespace": "team"}
    nodes = [
        each
        for number in range(30)
        for each in (
            gpu_node(f"n{number}", [gpu(0, f"GPU-{number}", holders=[] if number else held)]),
            node(f"n{number}", {WHOLE: "1"}),
        )
    ]
    wants = pod("wants", {WHOLE: "4"}, priority=9)
    wants["metadata"]["creationTimestamp"] = "2026-11-01T00:00:00Z"
    return [*nodes, holding, wants]


def client(there: Running) -> FlaskClient:
    return inspect_app(pods_blueprint(there, Explaining(there.explainer()), Serving())).test_client()  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def there() -> Running:
    return running(*objects())


def got(there: Running, path: str, status: int = 200) -> Any:
    reply = client(there).get(path)
    assert reply.status_code == status
    return reply.json


def test_a_waiting_pod_has_the_words_of_why_and_the_nearest_nodes(there: Running) -> None:
    told = got(there, "/page/pod?pod=default/wants")
    answer = there.explainer().of_name("default", "wants")
    assert told["verdict"] == ["Fits nowhere."]
    assert (told["counts"], told["advice"]) == (answer["counts"], answer["advice"])
    assert told["nearest"] == answer["nearest"]
    assert (told["asks"], told["placed"]) == ("4 × nvidia.com/gpu", None)
    assert told["waiting"] == {"priority": 9, "since": 1_793_491_200.0, "nominated": None}
    assert (len(told["nodes"]), told["nodesLeftOut"]) == (20, 10)
    first = told["nodes"][0]
    assert first["node"] == answer["nearest"]["node"]
    assert (first["verdict"], first["says"]) == ("rejected", "Insufficient nvidia.com/gpu per device")
    assert first["miss"] == "needs 4, has 1 nvidia.com/gpu"


def test_a_running_pod_has_its_gpus_and_the_words_about_all_nodes(there: Running) -> None:
    told = got(there, "/page/pod?pod=team/holds")
    assert told["verdict"] == ["It is on node n0 with GPU-0."]
    assert told["placed"]["devices"] == [{"container": "main", "uuid": "GPU-0", "index": 0, "profile": None}]
    assert (told["placed"]["priority"], told["waiting"]) == (5, None)
    # It counts more nodes than are shown.
    assert "30 of 30 nodes would fit" in told["decisions"][0]
    assert (told["counts"], told["nearest"], told["advice"]) == ({}, None, [])


def test_a_recorded_decision_is_told() -> None:
    recording = running(*objects())
    ask(recording.extender, pod("wants", {WHOLE: "4"}), ["n1", "n2"])
    decisions = got(recording, "/page/pod?pod=default/wants")["decisions"]
    assert decisions[0].endswith("of 2 nodes 0 fitted; 2 Insufficient nvidia.com/gpu per device")


def test_a_reason_that_only_kube_scheduler_knows_is_explained(there: Running) -> None:
    one = pod("one", {WHOLE: "1"})
    one["metadata"]["creationTimestamp"] = "2026-11-01T00:00:00Z"
    recording = running(*objects(), one)
    ask(recording.extender, one, ["n0"])
    told = got(recording, "/page/pod?pod=default/one")
    assert told["counts"][NOT_OFFERED] == 29
    assert [*told["meanings"]] == [NOT_OFFERED]
    assert "no fault of the node" in told["meanings"][NOT_OFFERED]
    assert got(there, "/page/pod?pod=default/wants")["meanings"] == {}


def test_no_node_costs_a_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    holding = [pod(f"low-{i}", {WHOLE: "1"}, on=f"n{i}") for i in range(30)]
    there = running(*objects(), *holding)
    monkeypatch.setattr(explain_module, "_resolvable", lambda *_: pytest.fail("a second at 2,000 nodes"))
    assert got(there, "/page/pod?pod=default/wants")["nodesLeftOut"] == 10


@pytest.mark.parametrize("hidden", [True, False], ids=["hidden", "named"])
def test_pods_of_other_namespaces_are_named_as_configured(hidden: bool) -> None:
    config = Configuration(inspection=InspectionSection(hide_other_namespaces=hidden))
    holding = pod("secret", {WHOLE: "1"}, on="n")
    holding["metadata"]["namespace"] = "other"
    held = [holder("secret", "other")]
    objects = gpu_node("n", [gpu(0, holders=held)]), node("n", {WHOLE: "1"}), holding
    there = running(*objects, pod("wants", {WHOLE: "1"}), config=config)
    told = client(there).get("/page/pod?pod=default/wants").text
    assert ("secret" in told) is not hidden


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("/page/pod?pod=default/none", 404, id="no such pod"),
        pytest.param("/page/pod?pod=none", 400, id="no namespace"),
        pytest.param("/page/pod", 400, id="no pod at all"),
        pytest.param("/page/pods?sort=colour", 400, id="an unknown order"),
        pytest.param(f"/page/pods?namespace={'x' * 321}", 400, id="a namespace longer than any name"),
        pytest.param(f"/page/search?find={'x' * 321}", 400, id="a text longer than any name"),
    ],
)
def test_others_are_refused_with_a_reason(there: Running, path: str, status: int) -> None:
    assert got(there, path, status)["error"]


def test_explanations_take_turns(there: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining_module, "_PATIENCE_S", 0.01)
    explaining = Explaining(there.explainer())
    app = inspect_app(pods_blueprint(there, explaining, Serving()))  # type: ignore[arg-type]

    def asked() -> int:
        return app.test_client().get("/page/pod?pod=default/wants").status_code

    with app.test_request_context():
        meanwhile = explaining.reply(lambda: {"status": asked()})
    assert (meanwhile.json, asked()) == ({"status": 503}, 200)


def test_a_request_that_has_waited_for_a_thread_does_not_wait_for_its_turn(there: Running) -> None:
    """Otherwise many explanations would keep the listener's threads from other requests, a second each."""
    explaining = Explaining(there.explainer())
    explaining._turn = Mock(acquire=Mock(return_value=False))
    app = inspect_app(pods_blueprint(there, explaining, Serving()))  # type: ignore[arg-type]
    came = {BODY_RECEIVED: time.monotonic() - 60}
    refused = app.test_client().get("/page/pod?pod=default/wants", environ_overrides=came)
    assert refused.status_code == 503
    explaining._turn.acquire.assert_called_once_with(timeout=0.0)


def test_lists_search_and_namespaces_answer(there: Running) -> None:
    pods = got(there, "/page/pods?find=team/&sort=oldest&namespace=team&node=n0")
    assert (pods["total"], pods["pods"][0]["name"]) == (1, "holds")
    found = got(there, "/page/search?find=wa")
    assert (found["waiting"]["total"], found["running"]["total"]) == (1, 0)
    sums = got(there, "/page/namespaces")
    assert [each["namespace"] for each in sums["namespaces"]] == ["team", "default"]


def test_a_list_is_bounded_however_many_pods_there_are() -> None:
    many = [pod(f"p{i}", {WHOLE: "1"}, on="n") for i in range(250)]
    there = running(gpu_node("n", [gpu(0)]), *many)
    pods = got(there, "/page/pods")
    assert (pods["total"], len(pods["pods"])) == (250, 200)
    found = got(there, "/page/search?find=p")["running"]
    assert (found["total"], len(found["pods"])) == (250, 20)
