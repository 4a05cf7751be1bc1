"""The figures of the comparison are those of benchmarks/results."""

from __future__ import annotations

import csv
import json
import re
import statistics
from collections import defaultdict
from typing import Any

from benchmarks.live_nominated import MOST
from benchmarks.scheduler.published import RUNS, comparison_table, readme_table
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


PEERS = {"HAMi": "HAMi, 4707fb0 of 2026-08-21, `-v=2`", "gpushare": "gpushare-scheduler-extender"}


def test_beside_other_extenders() -> None:
    """Their figures and ours between them, with the conditions that they hold for."""
    result = json.loads((RESULTS / "peers.json").read_text())
    text = section(PAGE, "### Beside HAMi and gpushare")
    table = {name: cells for name, *cells in rows(text)}
    assert table.keys() == set(PEERS.values())
    for name, title in PEERS.items():
        found = {row["case"]: row for row in result["rows"] if row["contender"] == name}
        expected = [
            tuple(found[case][key] for key in keys)
            for keys in (("p50Ms", "p99Ms"), ("oursP50Ms", "oursP99Ms"))
            for case in ("fits", "nowhere")
        ]
        assert [tuple(number(part) for part in cell.split(" / ")) for cell in table[title]] == expected
    conditions, plain = result["conditions"], " ".join(text.split())
    least, most = conditions["askedGiB"]
    for said in (
        f"{conditions['nodes']:,} nodes of eight {conditions['model']}",
        f"{conditions['runningShares']:,} running shares of {conditions['runningShareGiB']} GiB",
        f"a share of {least} to {most} GiB",
        "one kept connection of its own, on two cores",
        f"came after {result['firstAnswerS']['HAMi']} s",
        f"HAMi took {result['busyMachineP50Ms']['HAMi'] / 1000} s",
        f"gpushare {result['busyMachineP50Ms']['gpushare']} ms",
    ):
        assert said in plain


def test_the_readme_has_the_same_figures_of_others() -> None:
    result = json.loads((RESULTS / "peers.json").read_text())
    fits = {row["contender"]: row for row in result["rows"] if row["case"] == "fits"}
    table = rows(section(HOME, "## How it compares"))
    assert [(number(theirs), number(ours)) for _, theirs, ours in table] == [
        (fits[name]["p50Ms"], fits[name]["oursP50Ms"]) for name in ("HAMi", "gpushare")
    ]
    assert [name.partition(" ")[0] for name, *_ in table] == ["HAMi", "gpushare-scheduler-extender"]


def test_pods_per_second() -> None:
    """`python -m benchmarks.scheduler.published` prints these tables."""
    assert readme_table() in HOME
    assert comparison_table() in PAGE
    found = {
        (row["nodes"], row["contender"]): row["algorithmMeanMs"]["median"]
        for row in measured("scheduler-different-shipped-1gpu-1.37.json")
    }
    plain = " ".join(HOME.split())
    without, ours = (f"{found[5000, name]:.1f} ms" for name in ("none", "ours"))
    assert f"5,000 nodes take {without} without an extender and {ours} with scheduler-ext" in plain


def test_the_rounds_of_pods_per_second() -> None:
    rounds = {row["rounds"] for run in RUNS for row in measured(f"scheduler-{run.result}.json")}
    words = {3: "three", 5: "five"}
    for page in (HOME, PAGE):
        (said,) = set(re.findall(r"medians of (\w+)\s+rounds", page))
        assert [said] == [words[number] for number in rounds]


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


def test_the_readme_has_the_same_packing_and_names_its_omissions() -> None:
    policies = ("random", "best fit", "FGD", "**scheduler-ext**")
    whole = {policy: cells[-1] for policy, _, *cells in rows(section(PAGE, "## Packing"))}
    ((_, *found),) = rows(section(HOME, "## Packing"))
    assert [number(cell.replace(" %", "")) for cell in found] == [number(whole[name]) for name in policies]
    for text in (HOME, PAGE):
        assert "have no priorities" in section(text, "## Packing")


def test_pods_decided_together() -> None:
    page = (ROOT / "docs" / "concepts" / "placement.md").read_text()
    floors = json.loads((RESULTS / "placement-batches.json").read_text())["floors"]
    means = [floor for floor in floors if "mean of the traces" in floor["floor"]]
    *traces, mean = rows(section(page, "## Pods decided together"))
    assert [name for name, *_ in traces] == list(means[0]["byTrace"])
    for name, *cells in traces:
        assert cells == [
            _points(floor["byTrace"][name], digits) for floor, digits in zip(means, (3, 3, 2), strict=True)
        ]
    assert [cell.strip("*") for cell in mean[1:]] == [
        _points(floor["margin"], digits) for floor, digits in zip(means, (3, 3, 2), strict=True)
    ]


def _points(margin: float, digits: int) -> str:
    return f"{margin:+.{digits}f}"
