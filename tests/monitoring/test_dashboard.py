"""The dashboard: Grafana's schema, and the house's rules for panels, links, variables and clusters."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.manifests.objects import Json
from tests.monitoring.component import MONITORING, alerts, dashboard, panels, queries, variables
from tests.pages import ROOT, blocks

SCHEMA = Path(__file__).with_name("grafana_schema")
PAGE = "http://localhost:8890"
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="needs go on PATH")


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that compares a dashboard with Grafana's types."""
    program = tmp_path_factory.mktemp("schema") / "grafana-schema"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=SCHEMA, check=True, timeout=600)
    return program


def differences(schema: Path, compared: Json) -> list[str]:
    text = json.dumps(compared)
    done = subprocess.run([schema], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode == 1) is bool(done.stdout), done.stderr
    return done.stdout.splitlines()


@needs_go
@pytest.mark.process
def test_grafanas_schema_has_every_field(schema: Path) -> None:
    assert differences(schema, dashboard()) == []


@needs_go
@pytest.mark.process
@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        pytest.param('"wideLayout": true', '"wideLayout": "yes"', "bool", id="an option of another type"),
        pytest.param('"showHeader"', '"showHead"', "unexpected field 'showHead'", id="an option of no table"),
        pytest.param('"gridPos"', '"gridPosition"', "unexpected field", id="a field of no panel"),
        pytest.param('"instant"', '"moment"', "unexpected field 'moment'", id="a field of no query"),
    ],
)
def test_the_schema_finds_a_mistake(schema: Path, old: str, new: str, difference: str) -> None:
    text = json.dumps(dashboard())
    assert old in text
    assert any(difference in line for line in differences(schema, json.loads(text.replace(old, new))))


def test_every_panel_asks_the_chosen_data_source() -> None:
    assert dashboard()["uid"] == "gpu-scheduler"
    sources = [each["datasource"] for panel in panels() for each in (panel, *panel["targets"])]
    assert {source["uid"] for source in sources} == {"${datasource}"}


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    every = dashboard()["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    taken = [
        (x, y)
        for panel in every
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24


def test_panels_of_data_have_titles_of_their_own() -> None:
    titles = [panel["title"] for panel in panels()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_a_panel_says_in_sentences_what_it_shows(panel: Json) -> None:
    text = panel["description"]
    assert text.endswith(".")
    assert 40 < len(text) < 300
    for name in re.findall(r"metrics\.detail: (\w+)", text):
        assert name in ("cluster", "node", "device")


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_a_panel_has_a_unit_and_a_stat_has_thresholds(panel: Json) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    if panel["type"] == "table":
        return
    assert defaults["unit"]
    if panel["type"] == "stat":
        first, *others = defaults["thresholds"]["steps"]
        assert first["value"] is None
        assert [step["value"] for step in others] == sorted(step["value"] for step in others)


def test_a_state_is_shown_as_a_word_with_a_color() -> None:
    mapped = {
        panel["title"]: {
            value: (shown["text"], shown["color"])
            for mapping in found(panel, "mappings")
            for value, shown in mapping["options"].items()
        }
        for panel in panels()
    }
    assert mapped["Extender"] == {"0": ("none active", "red"), "1": ("active", "green")}
    # As in scheduler_ext/server/metrics/node_metrics.py.
    states = {"0": ("Fresh", "green"), "1": ("Stale", "orange"), "2": ("Missing", "red")}
    assert mapped["Nodes"] == states
    severities = {text for value, (text, _) in mapped["Alerts"].items() if value.isdigit()}
    assert severities == {rule["labels"]["severity"] for rule in alerts().values()}
    assert mapped["Alerts"].keys() == {"firing", "pending", "1", "2", "3"}


def found(tree: Any, name: str) -> Iterator[Any]:
    """Every element of the lists of this name, and of overrides of it."""
    if isinstance(tree, list):
        for each in tree:
            yield from found(each, name)
    elif isinstance(tree, dict):
        yield from tree.get(name, ()) if isinstance(tree.get(name, ()), list) else ()
        if tree.get("id") == name:
            yield from tree["value"]
        for value in tree.values():
            yield from found(value, name)


def test_every_link_leads_to_the_live_page_or_a_runbook_and_names_its_condition() -> None:
    links = list(found(dashboard(), "links"))
    assert links
    for link in links:
        assert link["title"].endswith(" (needs the port-forward)")
        assert link["targetBlank"] is True
        path = link["url"].removeprefix("${page}")
        assert path in ("/", "/runbooks/", "/runbooks/${__value.text}") or path.startswith(
            ("/#", "/runbooks/GPU")
        )
        runbook = re.fullmatch(r"/runbooks/(\w+)", path)
        assert runbook is None or runbook[1] in alerts()
    told = next(panel for panel in dashboard()["panels"] if panel["type"] == "text")["options"]["content"]
    (command,) = blocks((ROOT / "docs" / "tasks" / "page.md").read_text(), "sh")
    assert command.strip() in told
    assert {link["tooltip"] for link in dashboard()["links"]} == {command.strip()}


def test_the_tables_link_to_one_node_and_to_one_pod_on_the_live_page() -> None:
    urls = {link["url"] for link in found(panels(), "links")}
    assert {"${page}/#node=${__value.text}", "${page}/#pod=${__data.fields.Namespace}/${__value.text}"} < urls


def test_the_table_of_alerts_has_the_shipped_ones() -> None:
    (query,) = (query for query in queries() if query.panel == "Alerts")
    (names,) = re.findall(r'alertname=~"([^"]+)"', query.text)
    assert names.split("|") == list(alerts())


@pytest.mark.parametrize(
    "panel", [each for each in panels() if each["type"] == "table"], ids=lambda each: each["title"]
)
def test_a_tables_columns_are_named_after_its_queries(panel: Json) -> None:
    merge, organize = panel["transformations"]
    assert merge["id"] == "merge"
    renamed, order = organize["options"]["renameByName"], organize["options"]["indexByName"]
    values = (
        [f"Value #{each['refId']}" for each in panel["targets"]] if len(panel["targets"]) > 1 else ["Value"]
    )
    labels = re.findall(r"by \(([^)]*)\)", panel["targets"][0]["expr"])[0].split(", ")
    assert renamed.keys() | organize["options"]["excludeByName"].keys() == {"Time", *values, *labels}
    assert order.keys() == renamed.keys()
    styled = {each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]}
    assert styled | {panel["options"]["sortBy"][0]["displayName"]} <= set(renamed.values())
    for target in panel["targets"]:
        assert (target["format"], target["instant"]) == ("table", True)


def test_runbooks_name_panels_that_are_there() -> None:
    titles = {panel["title"] for panel in panels()}
    for file in sorted((ROOT / "docs" / "runbooks").glob("*.md")):
        for sentence in re.findall(r"[Tt]he dashboard's [^.`]*", file.read_text()):
            named = set(re.findall(r'"([^"]+)"', sentence.replace("\n", " ")))
            assert named
            assert named <= titles, file.name


@pytest.mark.parametrize(
    "query",
    [
        query
        for panel in panels()
        if panel["type"] == "timeseries"
        for query in queries()
        if query.panel == panel["title"]
        and re.search(r"{{(hostname|Hostname|node|gpu|namespace)}}", query.legend)
    ],
    ids=lambda query: f"{query.panel}, {query.legend}",
)
def test_a_panel_draws_few_lines_in_a_large_cluster(query: Any) -> None:
    assert re.match(r"(topk|bottomk) by \(cluster\) \((10|20), ", query.text)


def test_a_rate_covers_four_scrapes() -> None:
    """A query's own interval is the least step, and $__rate_interval is four times that. Without one, Grafana
    takes the data source's, 15 s by default; a rate then has no value after a late scrape."""
    (endpoint,) = yaml.safe_load((MONITORING / "pod-monitor.yaml").read_bytes())["spec"][
        "podMetricsEndpoints"
    ]
    drawn = [target for panel in panels() if panel["type"] == "timeseries" for target in panel["targets"]]
    assert {target["interval"] for target in drawn} == {endpoint["interval"]}
    others = [target for panel in panels() for target in panel["targets"] if target not in drawn]
    assert not any("$__rate_interval" in target["expr"] for target in others)


def test_every_variable_is_used() -> None:
    assert list(variables()) == ["datasource", "cluster", "node", "model", "page"]
    text = json.dumps([dashboard()["panels"], dashboard()["links"]])
    for name in variables():
        assert re.search(rf"\$\{{{name}\}}|\${name}\b", text), name
    assert variables()["page"]["query"] == PAGE


def test_everything_can_be_chosen_where_a_label_is_missing() -> None:
    for name in ("cluster", "node", "model"):
        assert (variables()[name]["includeAll"], variables()[name]["allValue"]) == (True, ".*")


@pytest.mark.parametrize("query", queries(), ids=lambda query: f"{query.panel}, {query.legend}")
def test_a_query_keeps_clusters_apart(query: Any) -> None:
    """Each selector is of the chosen clusters, and each aggregation has a result for each of them."""
    selectors = re.findall(r"\b[a-zA-Z_]\w*\{([^}]*)\}", query.text)
    assert selectors
    assert all('cluster=~"$cluster"' in selector for selector in selectors)
    aggregations = re.findall(r"\b(?:sum|max|min|count|topk|bottomk|avg)\b ?(.{0,12})", query.text)
    assert all(each.startswith("by (cluster") for each in aggregations), aggregations
    assert all(each.startswith("cluster") for each in re.findall(r"\bon \((.{0,12})", query.text))
