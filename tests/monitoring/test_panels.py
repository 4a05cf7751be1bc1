"""The numbers of panels, for nodes that a test chooses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from scheduler_ext.core.node.node import NodeInfo
from tests.monitoring.component import Query, panels, queries
from tests.monitoring.prometheus import needs_prometheus, promtool
from tests.server.test_gpu_metrics import sample, told

STATS = [panel["title"] for panel in panels() if panel["type"] == "stat"]


def series_of(infos: list[NodeInfo]) -> list[dict[str, str]]:
    """What promtool takes for the scrape of an extender with these nodes."""
    return [
        {
            "series": f"{name}{{{','.join(f'{label}={json.dumps(value)}' for label, value in labels)}}}",
            "values": f"{value}x5",
        }
        for name, samples in told(infos).items()
        for labels, value in samples.items()
    ]


def assert_shown(shown: Sequence[tuple[Query, float]], infos: list[NodeInfo], folder: Path) -> None:
    """Each query has this one value where an extender has these nodes."""
    test = {
        "interval": "1m",
        "input_series": series_of(infos),
        "promql_expr_test": [
            {
                "expr": query.expression,
                "eval_time": "2m",
                "exp_samples": [{"labels": "{}", "value": value}],
            }
            for query, value in shown
        ],
    }
    file = folder / "panels.yaml"
    file.write_text(yaml.safe_dump({"tests": [test]}))
    promtool("test", "rules", file)


@needs_prometheus
def test_panels_say_how_many_nodes_take_pods_without_a_report(tmp_path: Path) -> None:
    """And how many have no agent because of a label: the numbers of nodes to repair leave them out."""
    silent, kept, *others = (replace(info, freshness="Missing", by_allocatable=True) for info in sample())
    infos = [
        silent,
        replace(kept, agent_label="keeps away"),
        *(replace(each, freshness="Fresh") for each in others),
    ]
    found = {(query.panel, query.legend.removesuffix(" {{cluster}}")): query for query in queries()}
    states = "Nodes by state of their report"
    shown = [
        (found[states, "taking pods by allocatable"], 2.0),
        (found[states, "agent kept away"], 1.0),
        (found["Missing nodes", "{{cluster}}"], 1.0),
    ]
    assert_shown(shown, infos, tmp_path)


@needs_prometheus
@pytest.mark.parametrize(
    ("infos", "others"),
    [
        pytest.param([NodeInfo("cpu")], {}, id="no node has GPUs"),
        pytest.param(
            [replace(info, freshness="Missing") for info in sample()],
            {"Missing nodes": len(sample())},
            id="no node has a report",
        ),
    ],
)
def test_a_number_is_0_where_there_is_nothing(
    infos: list[NodeInfo], others: dict[str, float], tmp_path: Path
) -> None:
    """Without a value, Grafana says "No data", as if the monitoring had failed."""
    expected = {"Extender": 1.0, "Ready replicas": 1.0, **others}
    shown = [(query, expected.get(query.panel, 0.0)) for query in queries() if query.panel in STATS]
    assert_shown(shown, infos, tmp_path)
