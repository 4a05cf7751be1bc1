"""The page's part of the inspection listener: its files, and the stream of changes."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from werkzeug.test import TestResponse

from scheduler_ext.explain.waiting import WaitingPods
from tests.explain.test_replay import running
from tests.pages import PAGE_EVENTS
from tests.server.process.product import ONE_GPU
from tests.server.process.server_process import eventually
from tests.server.served import Served, served
from tests.server.test_inspect_routes import NAVIGATION


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as found:
        yield found


def event(reply: TestResponse) -> tuple[str, str, Any]:
    """The id, the kind and the data of the one event of a reply."""
    body = gzip.decompress(reply.data) if reply.headers.get("Content-Encoding") else reply.data
    assert body.endswith(b"\n\n")
    fields = dict(line.split(": ", 1) for line in body.decode().rstrip("\n").split("\n"))
    assert int(fields["retry"]) > 0
    return fields.get("id", ""), fields["event"], json.loads(fields["data"])


def first(server: Served) -> tuple[str, Any]:
    """The whole state, and its id."""
    eventually(lambda: event(server.inspect("/page/events"))[1] == "change")
    number, _, data = event(server.inspect("/page/events"))
    return number, data


def after(server: Served, number: str) -> tuple[str, Any]:
    number, kind, data = event(server.inspect("/page/events", Last_Event_ID=number))
    assert kind == "change"
    return number, data


def test_the_page_is_at_the_root_and_its_files_are_its_own(server: Served) -> None:
    moved = server.inspect("/")
    assert (moved.status_code, moved.headers["Location"]) == (302, "page/")
    index = server.inspect("/page/")
    assert index.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"//" not in index.data.replace(b"<!doctype", b""), "nothing from another origin"
    script = server.inspect("/page/js/main.js")
    assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
    known = server.inspect("/page/js/main.js", If_None_Match=script.headers["ETag"])
    assert known.status_code == 304


def test_runbooks_have_a_link_to_it(server: Served) -> None:
    assert '<a href="../page/">Live page</a>' in server.inspect("/runbooks/GPUExtenderDown").text


def test_other_pages_may_have_a_link_to_it(server: Served) -> None:
    assert server.inspect("/", **NAVIGATION).status_code == 302
    assert server.inspect("/page/", **NAVIGATION).status_code == 200


@pytest.mark.parametrize("path", ["nosuch.js", "../app.py", "..%2fapp.py", "%2e%2e/app.py", "vendor/LICENSE"])
def test_nothing_else_is_served(server: Served, path: str) -> None:
    assert server.inspect(f"/page/{path}").status_code == 404


def test_the_first_event_is_everything_and_the_next_is_no_more_than_a_sign_of_life(server: Served) -> None:
    number, state = first(server)
    assert state["full"] is True
    assert "gpu-node-00" in {row[0] for row in state["nodes"]}
    assert state["pending"] == {"total": 0, "lines": []}
    assert len(state["samples"][0]) == 7
    same, beat = after(server, number)
    assert (same, set(beat)) == (number, {"status"})


def test_an_id_that_is_none_of_ours_gets_everything(server: Served) -> None:
    first(server)
    for seen in ("nonsense", "x.99.99.99.99"):
        _, kind, state = event(server.inspect(f"/page/events?seen={seen}"))
        assert (kind, state["full"]) == ("change", True)


def test_a_decision_is_reported_once(server: Served) -> None:
    number, _ = first(server)
    asked = {"Pod": {"metadata": {"name": "p", "namespace": "n", "uid": "u"}}, "NodeNames": ["gpu-node-00"]}
    server.post("filter", json.dumps(asked).encode())
    number, state = after(server, number)
    (decision,) = state["decisions"]
    assert (decision["namespace"], decision["name"], decision["asked"]) == ("n", "p", 1)
    assert "decisions" not in after(server, number)[1]
    there = running(ONE_GPU)
    (line,) = WaitingPods(there, there.extender.record, there.explainer()).lines()
    everything = first(server)[1]
    fields = {*everything, *everything["status"], *everything["pending"], *decision, *line, "decisions"}
    named = {name.removesuffix("[]") for name in re.findall(r"`([^`]+)`", PAGE_EVENTS.read_text())}
    assert fields - named == set(), "the reference names every field"


def test_a_large_state_is_compressed_for_those_who_take_it(server: Served) -> None:
    first(server)
    plain = server.inspect("/page/events")
    packed = server.inspect("/page/events", Accept_Encoding="gzip, deflate")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Vary"] == "Accept-Encoding"
    assert len(packed.data) < len(plain.data) / 2
    assert event(packed)[2]["nodes"] == event(plain)[2]["nodes"]


def test_one_node_in_full(server: Served) -> None:
    found: Any = server.inspect("/page/node?name=gpu-node-00").json
    assert found["node"]["node"] == "gpu-node-00"
    assert {device["uuid"] for device in found["node"]["devices"]} == set(found["ledger"]["devices"])
    missing = server.inspect("/page/node?name=" + quote("<script>"))
    assert (missing.status_code, missing.json) == (404, {"error": "no such node"})
