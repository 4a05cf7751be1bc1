"""Alerts come when they should, and not otherwise; each has a runbook."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import urljoin

import pytest
from flask.testing import FlaskClient

from scheduler_ext.main import main
from scheduler_ext.server.app import inspect_app
from scheduler_ext.server.runbook_routes import runbooks_blueprint
from tests.monitoring.component import alerts, rules_file
from tests.monitoring.prometheus import needs_prometheus, promtool
from tests.pages import ROOT

RUNBOOKS = ROOT / "docs" / "runbooks"
UNIT_TESTS = sorted((Path(__file__).parent / "alerts").glob("*.yaml"))
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


@pytest.mark.process
@needs_prometheus
@pytest.mark.parametrize("file", UNIT_TESTS, ids=lambda file: str(file.stem))
def test_alerts_come_when_they_should(file: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(rules_file())
    here = tmp_path / file.name
    here.write_bytes(file.read_bytes())
    promtool("test", "rules", here)


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    return inspect_app(runbooks_blueprint()).test_client()


def test_an_extender_serves_the_runbook_of_every_alert_at_its_address(client: FlaskClient) -> None:
    for name, rule in alerts().items():
        url = rule["annotations"]["runbook_url"]
        reply = client.get(url)
        assert (reply.status_code, reply.content_type) == (200, "text/html; charset=utf-8")
        assert f"<title>{name}</title>" in reply.text
        reply = client.get(f"{url}.md")
        assert (reply.status_code, reply.content_type) == (200, "text/plain; charset=utf-8")
        assert reply.text == (RUNBOOKS / f"{name}.md").read_text()


def links_of(page: str) -> list[str]:
    return re.findall(r'<a href="([^"]+)"', page)


def test_the_index_as_served_links_to_every_runbook(client: FlaskClient) -> None:
    links = links_of(client.get("/runbooks/").text)
    assert [link for link in links if link in alerts()] == list(alerts())


def test_a_served_runbook_has_its_text_and_links_that_this_server_answers(client: FlaskClient) -> None:
    """A link to a page that no extender serves becomes words, with the path of that page in the sources."""
    for name in alerts():
        source, page = (RUNBOOKS / f"{name}.md").read_text(), client.get(f"/runbooks/{name}").text
        text = html.unescape(re.sub(r"<[^>]+>", "", page))
        for words, target in dict.fromkeys(LINK.findall(source)):
            path, sharp, heading = target.partition("#")
            if "/" in path:
                place = f"{(RUNBOOKS / path).resolve().relative_to(ROOT)}{sharp}{heading}"
                assert f"{words} ({place})" in text
                text = text.replace(f"{words} ({place})", words)
        assert LINK.sub(r"\1", source).strip() in text
        paths = {urljoin("/runbooks/", link) for link in links_of(page)}
        assert {client.get(path).status_code for path in paths} == {200}


def test_a_runbooks_own_commands_are_there() -> None:
    for name in alerts():
        text = (RUNBOOKS / f"{name}.md").read_text()
        for line in re.findall(r"^scheduler-ext (.+)$", text, re.MULTILINE):
            words = line.partition("|")[0].split()
            options = {option for parameter in main.commands[words[0]].params for option in parameter.opts}
            assert {word for word in words if word.startswith("-")} <= options


def test_expressions_keep_clusters_apart() -> None:
    """Any aggregation of several clusters has one result for each."""
    for name, rule in alerts().items():
        for aggregation in re.findall(r"\b(?:sum|max|min|count)\b(?! by \(cluster\b).*", rule["expr"]):
            raise AssertionError(f"{name}: {aggregation}")
