"""Alerts come when they should, and not otherwise; each has a runbook."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import pytest
import yaml

from scheduler_ext.cli import main
from scheduler_ext.server.app import inspect_app
from scheduler_ext.server.runbook_routes import runbooks_blueprint
from tests.monitoring.component import alerts, rules_file
from tests.monitoring.prometheus import needs_prometheus, promtool
from tests.pages import ROOT, blocks, section

RUNBOOKS = ROOT / "docs" / "runbooks"
UNIT_TESTS = sorted((Path(__file__).parent / "alerts").glob("*.yaml"))
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
HEADINGS = ("## Meaning", "## Diagnosis", "## Mitigation")


@pytest.mark.process
@needs_prometheus
@pytest.mark.parametrize("file", UNIT_TESTS, ids=lambda file: str(file.stem))
def test_alerts_come_when_they_should(file: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(rules_file())
    here = tmp_path / file.name
    here.write_bytes(file.read_bytes())
    promtool("test", "rules", here)


def test_every_alert_is_seen_to_come_and_to_stay_away() -> None:
    comes: Counter[str] = Counter()
    stays_away: Counter[str] = Counter()
    for file in UNIT_TESTS:
        for test in yaml.safe_load(file.read_bytes())["tests"]:
            for expected in test.get("alert_rule_test", ()):
                (comes if expected.get("exp_alerts") else stays_away)[expected["alertname"]] += 1
    assert comes.keys() == alerts().keys()
    # A series of one node says that the others have no alert.
    assert alerts().keys() - stays_away.keys() == {"GPUReportsRefused"}


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


@pytest.mark.parametrize("name", ["", *alerts()])
def test_links_of_a_served_runbook_lead_to_runbooks_and_to_the_live_page(name: str) -> None:
    for link in served(f"/runbooks/{name}").links:
        path = urljoin("/runbooks/", link)
        if path != "/page/":
            assert served(path).text


@pytest.mark.parametrize("name", ["README", *alerts()])
def test_a_served_runbook_has_the_text_of_its_source(name: str) -> None:
    """A link to a page that no extender serves becomes words, with the path of that page in the sources."""
    source, text = (RUNBOOKS / f"{name}.md").read_text(), served(f"/runbooks/{name}").text
    for words, target in dict.fromkeys(LINK.findall(source)):
        path, sharp, heading = target.partition("#")
        if "/" in path:
            place = f"{(RUNBOOKS / path).resolve().relative_to(ROOT)}{sharp}{heading}"
            assert f"{words} ({place})" in text
            text = text.replace(f"{words} ({place})", words)
    assert LINK.sub(r"\1", source).strip() in text


def test_the_command_for_runbooks_is_that_of_the_live_page() -> None:
    (command,) = blocks((ROOT / "docs" / "tasks" / "page.md").read_text(), "sh")
    assert {rule["annotations"]["runbook_access"] for rule in alerts().values()} == {command.strip()}


def test_expressions_keep_clusters_apart() -> None:
    """Any aggregation of several clusters has one result for each."""
    for name, rule in alerts().items():
        for aggregation in re.findall(r"\b(?:sum|max|min|count)\b(?! by \(cluster\b).*", rule["expr"]):
            raise AssertionError(f"{name}: {aggregation}")


def test_every_alert_has_its_runbook_and_every_runbook_its_alert() -> None:
    assert {name: rule["annotations"]["runbook_url"] for name, rule in alerts().items()} == {
        name: f"http://localhost:8890/runbooks/{name}" for name in alerts()
    }
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {"README", *alerts()}


@pytest.mark.parametrize("name", sorted(alerts()))
def test_a_runbook_has_meaning_diagnosis_and_mitigation(name: str) -> None:
    text = (RUNBOOKS / f"{name}.md").read_text()
    assert text.startswith(f"# {name}\n")
    assert tuple(re.findall(r"^## .+$", text, re.MULTILINE)) == HEADINGS
    assert all(section(text, heading).strip() for heading in HEADINGS)


@pytest.mark.parametrize("name", sorted(alerts()))
def test_a_runbook_shows_the_logs_of_all_extenders(name: str) -> None:
    """Of a Deployment kubectl shows one pod, and of selected pods ten lines unless told otherwise."""
    commands = re.findall(r"kubectl \S+ gpu-scheduler logs [^`\n]+", (RUNBOOKS / f"{name}.md").read_text())
    for command in commands:
        assert re.search(r" -l app.kubernetes.io/(name|component)=\S+ ", command), command
        assert "--prefix" in command
        assert "--tail=-1 | grep" in command or "| grep" not in command


@pytest.mark.parametrize("name", sorted(alerts()))
def test_a_runbooks_own_commands_are_there(name: str) -> None:
    text = (RUNBOOKS / f"{name}.md").read_text()
    for line in re.findall(r"^scheduler-ext (.+)$", text, re.MULTILINE):
        words = line.partition("|")[0].split()
        options = {option for parameter in main.commands[words[0]].params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options


@pytest.mark.parametrize("name", sorted(alerts()))
def test_an_alert_has_a_severity_and_a_short_summary(name: str) -> None:
    rule = alerts()[name]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert {"summary", "description", "runbook_url", "runbook_access"} == rule["annotations"].keys()
    assert rule["for"]


def test_the_index_has_every_runbook_with_the_severity_of_its_alert() -> None:
    listed = re.findall(r"\]\((\w+)\.md\) \| (\w+) \|", (RUNBOOKS / "README.md").read_text())
    assert listed == [(name, rule["labels"]["severity"]) for name, rule in alerts().items()]
