"""The figures of the comparison are those of benchmarks/results."""

from __future__ import annotations

import csv
import json
import re
import statistics
from collections import defaultdict
from typing import Any

from benchmarks.live_nominated import MOST
from tests.pages import ROOT, rows, section

PAGE = (ROOT / "docs" / "concepts" / "comparison.md").read_text()
HOME = (ROOT / "README.md").read_text()
RESULTS = ROOT / "benchmarks" / "results"
POLICIES = {
    "least allocated": "least-allocated",
    "most allocated": "most-allocated",
    "best fit": "best-fit",
    "FGD": "fgd",
    "**scheduler-ext**": "default",
}


def measured(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RESULTS / name).read_text())["rows"]
    return found


def in_ms(microseconds: float) -> float:
    return round(microseconds / 1000, 1)


def number(cell: str) -> float:
    return float(cell.replace(",", "").replace("*", "").removesuffix("/s").removesuffix(" ms"))


def test_the_time_to_filter() -> None:
    found = {
        (row["nodes"], row["case"], row["asks"]): (in_ms(row["p50Us"]), in_ms(row["p99Us"]))
        for row in measured("filtering.json")
    }
    table = rows(section(PAGE, "## Time to filter"))
    assert len(table) == 3
    columns = [(case, asks) for case in ("fits", "nowhere") for asks in ("different", "alike")]
    for nodes, *cells in table:
        for (case, asks), cell in zip(columns, cells, strict=True):
            p50, p99 = (number(part) for part in cell.split(" / "))
            assert found[int(number(nodes)), case, asks] == (p50, p99)
    (said,) = re.findall(r"5,000 nodes of eight GPUs are filtered in ([\d.]+) ms", HOME)
    assert number(said) == found[5000, "fits", "different"][0]


def test_pods_per_second() -> None:
    found = {
        (row["nodes"], row["contender"]): (
            round(row["algorithmMeanMs"]["median"], 1),
            round(row["podsPerSecond"]["median"]),
        )
        for row in measured("scheduler-alike.json")
    }
    table = rows(section(PAGE, "## Pods per second"))
    assert len(table) == 3
    for nodes, without, ours in table:
        for contender, cell in (("none", without), ("ours", ours)):
            mean, rate = (number(part) for part in cell.split(", "))
            assert found[int(number(nodes)), contender] == (mean, rate)


def test_a_nominated_pod() -> None:
    report = json.loads((RESULTS / "live-nominated.json").read_text())
    (said,) = re.findall(r"was ([\d.]+) times the p99 without one", PAGE)
    assert number(said) == report["phases"]["nominated"]["p99ToPublications"] <= MOST
    assert report["nodes"] == 5000 <= report["distinctStates"]


def test_packing() -> None:
    allocated = defaultdict(list)
    with (RESULTS / "placement.csv").open() as file:
        for row in csv.DictReader(file):
            allocated[row["policy"]].append(
                (float(row["allocationPercent100"]), float(row["allocationPercent130"]))
            )
    for policy, _, *cells in rows(section(PAGE, "## Packing")):
        values = allocated[POLICIES.get(policy, policy)]
        assert [number(cell) for cell in cells] == [
            round(statistics.fmean(part), 1) for part in zip(*values, strict=True)
        ], policy
