"""The dashboard: Grafana's schema, rates, and several clusters."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.manifests.objects import Json
from tests.monitoring.component import MONITORING, dashboard, panels, queries

SCHEMA = Path(__file__).with_name("grafana_schema")
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
@pytest.mark.release
def test_grafanas_schema_has_every_field(schema: Path) -> None:
    assert differences(schema, dashboard()) == []


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


def test_a_query_keeps_clusters_apart() -> None:
    """Each selector is of the chosen clusters, and each aggregation has a result for each of them."""
    for query in queries():
        selectors = re.findall(r"\b[a-zA-Z_]\w*\{([^}]*)\}", query.text)
        assert selectors
        assert all('cluster=~"$cluster"' in selector for selector in selectors), query
        aggregations = re.findall(r"\b(?:sum|max|min|count|topk|bottomk|avg)\b ?(.{0,12})", query.text)
        assert all(each.startswith("by (cluster") for each in aggregations), query
        assert all(each.startswith("cluster") for each in re.findall(r"\bon \((.{0,12})", query.text)), query
