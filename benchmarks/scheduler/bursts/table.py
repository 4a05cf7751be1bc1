"""Bursts as rows, tables and JSON."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.report import aligned
from benchmarks.scheduler.bursts.burst import Burst
from benchmarks.scheduler.summary import Spread, spread

REFERENCES = ("every-node", "none", "stock")
"""Contenders whose pods/s in the same round the others' are divided by."""

BOUNDS = (
    (100, "every-node", 1.0),
    (5000, "every-node", 2.0),
    (20000, "every-node", 3.0),
    (5000, "stock", 0.5),
)
"""The least that ours is to reach: nodes, reference, ratio."""


def rows(bursts: Sequence[Burst]) -> list[dict[str, Any]]:
    """Each contender at each size: medians over the rounds, and ratios within a round."""
    found = []
    for nodes, name in dict.fromkeys((each.nodes, each.contender) for each in bursts):
        own = [each for each in bursts if (each.nodes, each.contender) == (nodes, name)]
        row: dict[str, Any] = {"nodes": nodes, "contender": name, "rounds": len(own), "pods": own[0].pods}
        row["podsPerSecond"] = _json(spread(each.pods_per_s for each in own))
        row["algorithmMeanMs"] = _json(spread(each.algorithm_ms for each in own))
        row["batchedPart"] = round(statistics.median(each.batched for each in own), 3)
        row["retries"] = sum(each.retries for each in own)
        row["unbound"] = sum(each.pods - each.bound for each in own)
        row["cpuMsPerPod"] = {
            name: round(statistics.median(each.cpu_ms[name] for each in own), 1) for name in own[0].cpu_ms
        }
        for reference in REFERENCES:
            row[f"to {reference}"] = _json(spread(_ratios(own, bursts, reference)))
        found.append(row)
    return found


def bound_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence per bound that was measured."""
    lines = []
    for nodes, reference, least in BOUNDS:
        for row in found:
            ratio = row.get(f"to {reference}")
            if (row["nodes"], row["contender"]) == (nodes, "ours") and ratio is not None:
                verdict = "holds" if ratio["median"] >= least else "MISSED"
                told = f"pods/s of ours / {reference} >= {least:g}: {ratio['median']:.2f} {verdict}"
                lines.append(f"{nodes} nodes: {told}")
    return lines


def _ratios(own: Sequence[Burst], bursts: Sequence[Burst], reference: str) -> list[float]:
    beside = {(each.nodes, each.round): each.pods_per_s for each in bursts if each.contender == reference}
    ratios = []
    for each in own:
        base = beside.get((each.nodes, each.round))
        if base and each.pods_per_s:
            ratios.append(each.pods_per_s / base)
    return ratios


def _json(found: Spread | None) -> dict[str, float] | None:
    return found.as_json() if found is not None else None


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """The rows as text."""
    ratios = [f"TO {name}".upper() for name in REFERENCES]
    lines = [
        ("NODES", "CONTENDER", "PODS/S", "MIN-MAX", *ratios, "ALGORITHM MS", "BATCHED", "RETRIES", "UNBOUND")
    ]
    for row in found:
        median, range_ = _cells(row["podsPerSecond"])
        lines.append(
            (
                str(row["nodes"]),
                row["contender"],
                median,
                range_,
                *(_cells(row[f"to {name}"])[0] for name in REFERENCES),
                _cells(row["algorithmMeanMs"])[0],
                f"{row['batchedPart']:.0%}",
                str(row["retries"]),
                str(row["unbound"]),
            )
        )
    lines_of_cpu = [("NODES", "CONTENDER", "ALL", *(name.upper() for name in found[0]["cpuMsPerPod"]))]
    for row in found:
        used = row["cpuMsPerPod"]
        shown = (f"{each:.1f}" for each in (sum(used.values()), *used.values()))
        lines_of_cpu.append((str(row["nodes"]), row["contender"], *shown))
    cpu = ("", "Processor time for each pod, ms:", aligned(lines_of_cpu))
    return "\n".join((aligned(lines), *cpu))


def _cells(found: Mapping[str, float] | None) -> tuple[str, str]:
    if found is None:
        return "-", "-"
    return f"{found['median']:.2f}", f"{found['min']:.2f}-{found['max']:.2f}"
