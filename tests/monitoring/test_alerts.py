"""Alerts come when they should, and not otherwise; each has a runbook."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import pytest

from scheduler_ext.cli import main
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


def test_an_extender_serves_the_runbook_of_every_alert_at_its_address() -> None:
    client = inspect_app(runbooks_blueprint()).test_client()
    for name, rule in alerts().items():
        url = rule["annotations"]["runbook_url"]
        reply = client.get(url)
        assert (reply.status_code, reply.content_type) == (200, "text/html; charset=utf-8")
        assert f"<title>{name}</title>" in reply.text
        reply = client.get(f"{url}.md")
        assert (reply.status_code, reply.content_type) == (200, "text/plain; charset=utf-8")
        assert reply.text == (RUNBOOKS / f"{name}.md").read_text()


class Served(HTMLParser):
    """A page as its reader has it: the text, and where the links in it lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            (link,) = (value for name, value in attrs if name == "href" and value)
            self.links.append(link)

    def handle_data(self, data: str) -> None:
        self.text += data


def served(path: str) -> Served:
    reply = inspect_app(runbooks_blueprint()).test_client().get(path)
    assert reply.status_code == 200, path
    return Served(reply.text)


def test_the_index_as_served_links_to_every_runbook() -> None:
    index = served("/runbooks/")
    assert [link for link in index.links if link in alerts()] == list(alerts())


def test_a_served_runbook_has_its_text_and_links_that_this_server_answers() -> None:
    """A link to a page that no extender serves becomes words, with the path of that page in the sources."""
    for name in alerts():
        source, page = (RUNBOOKS / f"{name}.md").read_text(), served(f"/runbooks/{name}")
        text = page.text
        for words, target in dict.fromkeys(LINK.findall(source)):
            path, sharp, heading = target.partition("#")
            if "/" in path:
                place = f"{(RUNBOOKS / path).resolve().relative_to(ROOT)}{sharp}{heading}"
                assert f"{words} ({place})" in text
                text = text.replace(f"{words} ({place})", words)
        assert LINK.sub(r"\1", source).strip() in text
        for link in page.links:
            path = urljoin("/runbooks/", link)
            assert path == "/page/" or served(path).text


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
