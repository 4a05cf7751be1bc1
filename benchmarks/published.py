"""The published figures, from `benchmarks/results`: what `docs/generate.py` writes into the pages."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from benchmarks.published_placement import POLICIES, PUBLISHED
from benchmarks.scheduler.contenders import EVERY_NODE, NONE, NOOP_FEW, OURS, STOCK

RESULTS = Path(__file__).resolve().parent / "results"


@cache
def _result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def table(*rows: Sequence[str]) -> str:
    """A table of Markdown, the first row as its head."""
    lines = [f"| {' | '.join(cells)} |".replace("  ", " ") for cells in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


# Filter, and other extenders


def _filter_times() -> Mapping[tuple[int, str, str], dict[str, float]]:
    return {(row["nodes"], row["case"], row["asks"]): row for row in _result("filtering")["rows"]}


def time_to_filter() -> str:
    times = _filter_times()
    columns = [(case, asks) for case in ("fits", "nowhere") for asks in ("different", "alike")]
    return table(
        (
            "nodes",
            "fits, new request",
            "fits, repeated request",
            "fits nowhere, new",
            "fits nowhere, repeated",
        ),
        *(
            [
                f"{nodes:,}",
                *(_ms(times[nodes, *column]) for column in columns),
            ]
            for nodes in sorted({nodes for nodes, _, _ in times})
        ),
    )


def _ms(row: dict[str, float]) -> str:
    return f"{row['p50Us'] / 1000:.1f} / {row['p99Us'] / 1000:.1f}"


def time_of_a_new_request() -> str:
    return f"{_filter_times()[5000, 'fits', 'different']['p50Us'] / 1000:.1f} ms"


def wire_latency() -> str:
    rows = {
        (row["verb"], row["nodes"], row["kind"]): row
        for row in _result("latency")["rows"]
        if row["connections"] == 1
    }

    def cells(verb: str, nodes: int) -> Iterator[str]:
        for kind in ("whole", "share", "mig"):
            row = rows[verb, nodes, kind]
            digits = 2 if row["p50Us"] < 950 else 1
            yield f"{row['p50Us'] / 1000:.{digits}f} ms, {row['ratio']:.1f}x"

    return table(
        ("names of 8-GPU nodes", "whole GPUs", "memory shares", "MIG"),
        *((f"filter {nodes:,}", *cells("filter", nodes)) for nodes in (500, 5000, 20_000)),
        ("prioritize the best 100 of 5,000", *cells("prioritize", 5000)),
    )


def time_of_scores() -> str:
    """Of the best 100 of 5,000 nodes, for whole GPUs."""
    (row,) = (
        row
        for row in _result("latency")["rows"]
        if (row["verb"], row["nodes"], row["kind"], row["connections"]) == ("prioritize", 5000, "whole", 1)
    )
    return f"{row['p50Us'] / 1000:.1f} ms"


_PEERS = {"HAMi": "HAMi, {}", "gpushare": "{}"}


def _peers() -> Mapping[tuple[str, str], dict[str, Any]]:
    return {(row["contender"], row["case"]): row for row in _result("peers")["rows"]}


def beside_peers() -> str:
    rows = _peers()

    def line(name: str) -> Iterator[str]:
        yield _PEERS[name].format(rows[name, "fits"]["release"]).replace("-v=2", "`-v=2`")
        for p50, p99 in (("p50Ms", "p99Ms"), ("oursP50Ms", "oursP99Ms")):
            for case in ("fits", "nowhere"):
                yield f"{rows[name, case][p50]:,} / {rows[name, case][p99]:,}"

    return table(
        (
            *("extender", "the pod fits", "it fits nowhere"),
            *("scheduler-ext in the same run: fits", "scheduler-ext in the same run: nowhere"),
        ),
        *([*line(name)] for name in _PEERS),
    )


def peers_that_fit() -> str:
    rows = _peers()
    hami = rows["HAMi", "fits"]["release"].partition(",")[0]
    return table(
        ("", "the other extender", "**scheduler-ext** in the same run"),
        *(
            (title, f"{rows[name, 'fits']['p50Ms']} ms", f"{rows[name, 'fits']['oursP50Ms']} ms")
            for name, title in (("HAMi", f"HAMi ({hami})"), ("gpushare", rows["gpushare", "fits"]["release"]))
        ),
    )


def first_answer() -> str:
    return f"{_result('peers')['firstAnswerS']['HAMi']} s"


def busy_peer(name: str) -> str:
    milliseconds = _result("peers")["busyMachineP50Ms"][name]
    return f"{milliseconds / 1000} s" if milliseconds >= 1000 else f"{milliseconds} ms"


def ready_after(name: str) -> str:
    return f"{_result(name)['readySeconds']:.1f} s"


def peak_memory(name: str) -> str:
    return f"{_result(name)['peakMiB']} MiB"


def nominated() -> str:
    return f"{_result('live-nominated')['phases']['nominated']['p99ToPublications']} times"


# Pods per second


class Run(NamedTuple):
    """A run of `make bench-scheduler`, and its pods in words."""

    result: str
    pods: str


README = Run("alike-1gpu-1.37", "equal pods")
DIFFERENT = Run("different-1gpu-1.37", "pods that all differ")
RUNS = (
    README,
    Run("alike-1gpu-1.36", "equal pods"),
    DIFFERENT,
    Run("different-1gpu-1.36", "pods that all differ"),
)


def _measured(run: Run) -> Mapping[tuple[int, str], dict[str, Any]]:
    rows = _result(f"scheduler-{run.result}")["rows"]
    return {(row["nodes"], row["contender"]): row for row in rows}


def _speed(row: dict[str, Any]) -> str:
    """The medians of the algorithm's time and of the rate."""
    return f"{row['algorithmMeanMs']['median']:.1f} ms, {row['podsPerSecond']['median']:.0f}/s"


def pods_per_second_on_the_newest() -> str:
    rows = _measured(README)
    return table(
        ("nodes", "kube-scheduler as it comes", "**scheduler-ext**", "scheduler-ext, all nodes examined"),
        *(
            [
                f"{nodes:,}",
                *(_speed(rows[nodes, each.name]) for each in (STOCK, OURS)),
                # kube-scheduler examines all of a hundred nodes anyway.
                _speed(rows[nodes, EVERY_NODE.name]) if nodes > 100 else "the same",
            ]
            for nodes in sorted({nodes for nodes, _ in rows})
        ),
    )


def pods_per_second() -> str:
    def line(nodes: int, run: Run) -> list[str]:
        rows = _measured(run)
        release = _result(f"scheduler-{run.result}")["scheduler"].rpartition(" v")[2]
        batched = f"{100 * rows[nodes, NONE.name]['batchedPart']:.0f} %"
        stock, none, unread, ours, every = (
            _speed(rows[nodes, each.name]) for each in (STOCK, NONE, NOOP_FEW, OURS, EVERY_NODE)
        )
        return [f"{nodes:,}", run.pods, release, stock, none, batched, unread, ours, every]

    return table(
        (
            "nodes",
            "pods",
            "Kubernetes",
            "as it comes",
            "no extender",
            "batched",
            "100 names unread",
            "**scheduler-ext**",
            "all nodes examined",
        ),
        *(line(nodes, run) for nodes in (1000, 5000) for run in RUNS),
    )


def time_for_different_pods(contender: str) -> str:
    return f"{_measured(DIFFERENT)[5000, contender]['algorithmMeanMs']['median']:.1f} ms"


# Packing


_TRACES = list(dict.fromkeys(trace for trace, _ in PUBLISHED))


class _Packed(NamedTuple):
    at_100: float
    at_130: float


@cache
def _placements() -> Sequence[Mapping[str, str]]:
    """The runs: one for each trace, policy and seed."""
    with (RESULTS / "placement.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def _packed() -> Mapping[str, Mapping[str, _Packed]]:
    """The allocation in per cent by policy and trace, a mean of the seeds."""
    runs: dict[str, dict[str, list[_Packed]]] = defaultdict(lambda: defaultdict(list))
    for row in _placements():
        values = _Packed(float(row["allocationPercent100"]), float(row["allocationPercent130"]))
        runs[row["policy"]][row["trace"]].append(values)
    return {
        policy: {trace: _Packed(*map(fmean, zip(*values, strict=True))) for trace, values in traces.items()}
        for policy, traces in runs.items()
    }


def _mean(policy: str) -> _Packed:
    return _Packed(*map(fmean, zip(*_packed()[policy].values(), strict=True)))


def packing() -> str:
    rows = (
        ("random", "random", ""),
        ("least allocated", "least-allocated", "kube-scheduler's default score"),
        ("most allocated", "most-allocated", "kube-scheduler, if configured to pack"),
        ("best fit", "best-fit", ""),
        ("FGD", "fgd", "the paper of that name"),
    )
    ours = [f"**{value:.1f}**" for value in _mean("default")]
    return table(
        ("policy", "used by", "100 %", "130 %"),
        *((title, used, *(f"{value:.1f}" for value in _mean(policy))) for title, policy, used in rows),
        ("**scheduler-ext**", "the default of this project", *ours),
    )


def packing_at_130() -> str:
    values = [f"{_mean(policy).at_130:.1f} %" for policy in ("random", "best-fit", "fgd")]
    ours = f"**{_mean('default').at_130:.1f} %**"
    return table(("", "random", "best fit", "FGD", "**scheduler-ext**"), ("GPUs allocated", *values, ours))


def packing_by_trace() -> str:
    """Ours at 100 and at 130 per cent, with the published values in brackets."""
    packed = _packed()

    def line(trace: str, of: Mapping[str, _Packed]) -> Iterator[str]:
        yield trace
        for policy in POLICIES:
            theirs = PUBLISHED.get((trace, policy))
            brackets = f"<br>({theirs['100']:.2f} → {theirs['130']:.2f})" if theirs else ""
            yield f"{of[policy].at_100:.2f} → {of[policy].at_130:.2f}{brackets}"
        ours, fgd = of["default"], of["fgd"]
        yield f"**{ours.at_100:.2f} → {ours.at_130:.2f}**"
        yield f"{ours.at_100 - fgd.at_100:+.2f} → {ours.at_130 - fgd.at_130:+.2f}"

    return table(
        ("trace", *POLICIES, "**default**", "default − fgd"),
        *([*line(trace, {policy: found[trace] for policy, found in packed.items()})] for trace in _TRACES),
        [*line("mean", {policy: _mean(policy) for policy in packed})],
    )


def beside_published(load: str, fgd: bool) -> str:
    """The largest distance of FGD, or of the other policies, from its published allocation, in points."""
    packed = _packed()
    distances = (
        abs(getattr(packed[policy][trace], f"at_{load}") - published[load])
        for (trace, policy), published in PUBLISHED.items()
        if (policy == "fgd") == fgd
    )
    return f"{max(distances):.2f}"


_SIZES = (("share",), ("1-gpu",), ("2-gpu", "4-gpu"), ("8-gpu",))


def packing_by_policy() -> str:
    """Means of the traces, and the rejected parts of the default trace's demand."""

    def line(policy: str) -> list[str]:
        runs = [row for row in _placements() if row["policy"] == policy]
        on_default = [row for row in runs if row["trace"] == "default"]
        arrived = sum(int(row["arrivedMilli"]) for row in on_default)

        def rejected(sizes: Sequence[str]) -> str:
            columns = [f"rejectedMilli.{size}{suffix}" for size in sizes for suffix in ("", "-constrained")]
            return f"{sum(int(row[column] or 0) for row in on_default for column in columns) / arrived:.1%}"

        mean = _mean(policy)
        mark = "**" if policy == "default" else ""
        return [
            f"{mark}{policy}{mark}",
            f"{mark}{mean.at_100:.2f} → {mean.at_130:.2f}{mark}",
            f"{mark}{_fragmented(runs)}{mark}",
            *(rejected(sizes).removesuffix("%") for sizes in _SIZES),
        ]

    policies = sorted(_packed(), key=_mean, reverse=True)
    return table(
        ("policy", "100 → 130", "fragmented at 90", "rejected shares", "one", "two and four", "eight"),
        *map(line, policies),
    )


def fragmented_on_default(policy: str) -> str:
    return _fragmented(row for row in _placements() if (row["policy"], row["trace"]) == (policy, "default"))


def _fragmented(runs: Iterable[Mapping[str, str]]) -> str:
    return f"{fmean(float(row['fragmentationPercentAt90']) for row in runs):.1f}"


def _floors(name: str) -> Mapping[str, dict[str, Any]]:
    return {each["floor"]: each for each in _result(name)["floors"]}


_FORECASTS = {
    "forecast: the trace's own pods": "the trace's own pods expected",
    "forecast: past pods (`online`)": "what came before expected",
    "forecast: the first 300 pods": "the first 300 pods expected",
}
_TIES = "random ties and 0 to 10 points"


def other_forecasts() -> str:
    """Allocation at 100 and at 130 per cent."""
    floors = _floors("placement-floors")

    def both(floor: str, value: str, part: str = "mean", form: str = ".2f") -> str:
        return " → ".join(
            f"{floors[f'{floor}, {part} of the traces at {n} %'][value]:{form}}" for n in (100, 130)
        )

    return table(
        ("", "fgd", "default", "margin", "least margin"),
        *(
            (
                title,
                *(both(floor, value) for value in ("reference", "ours")),
                *(both(floor, "margin", part, "+.2f") for part in ("mean", "least")),
            )
            for title, floor in _FORECASTS.items()
        ),
        ("scores of 0 to 10 and random ties", "", both(_TIES, "ours"), "", ""),
    )


_CHURN = {
    "default": "churn",
    "gpuspec10": "churn where pods want models",
    "default, a third of the GPU pods restricted to one or two models": (
        "churn where 33 % of the GPU pods want models"
    ),
}


def churn() -> str:
    floors = _floors("placement-floors")

    def line(floor: dict[str, Any]) -> Iterator[str]:
        yield from (f"{floor[value]:.2f}" for value in ("reference", "ours"))
        yield f"{floor['margin']:+z.2f} ± {floor['standardError']:.2f}"

    return table(
        ("", "fgd", "default", "margin"),
        *([title, *line(floors[floor])] for title, floor in _CHURN.items()),
    )


def families() -> str:
    """Generated clusters: inflation beside the best other policy, and churn beside FGD."""
    floors, generated = _floors("placement-floors"), import_module("scheduler_ext.sim.generator").FAMILIES

    def line(name: str) -> Iterator[str]:
        at = [floors[f"{name} clusters at {load} %"] for load in (100, 130)]
        in_churn = floors[f"{name} clusters in churn"]
        yield f"{name}, {generated[name].nodes:,}"
        yield " → ".join(f"{each['ours']:.2f}" for each in at)
        yield " → ".join(f"{each['reference']:.2f} ({each['referencePolicy']})" for each in at)
        yield " → ".join(f"{each['margin']:+.2f}" for each in at)
        yield from (f"{in_churn[value]:.2f}" for value in ("ours", "reference"))
        yield f"{in_churn['margin']:+.2f} ± {in_churn['standardError']:.2f}"

    return table(
        ("family, nodes", "default", "best of the others", "margin", "churn: default", "fgd", "margin"),
        *([*line(name)] for name in generated),
    )


def mig() -> str:
    found = [each for each in _result("placement-floors")["floors"] if each["group"] == "mig"]
    best = [each for each in found if each["referencePolicy"] is not None]
    return table(
        ("mix", "**default**", "best of the others", "margin"),
        *(
            (
                each["trace"],
                f"**{each['ours']:.2f}**",
                f"{each['reference']:.2f} ({each['referencePolicy']})",
                f"{each['margin']:+.2f} ± {each['standardError']:.2f}",
            )
            for each in best
        ),
    )


def speed_of_decisions() -> str:
    runs = [row for row in _placements() if row["policy"] == "default"]
    return f"{round(median(float(row['decisionsPerSecond']) for row in runs), -2):,.0f}"


def gangs_over_time() -> str:
    """Means over the seeds, and the differences of the same jobs."""
    report = _result("gangs")
    useful = {
        start: [run["usefulAllocationPercent"] for run in report["runs"] if run["start"] == start]
        for start in ("alone", "together", "timed")
    }
    means = {mean["start"]: mean for mean in report["summary"]}
    sizes = ("single", "3-4", "9-16")

    def line(start: str) -> Iterator[str]:
        mean = means[start]
        yield f"`{start}`"
        yield f"{mean['usefulAllocationPercent']:.1f}"
        apart = [its - alone for its, alone in zip(useful[start], useful["alone"], strict=True)]
        yield "" if start == "alone" else f"{fmean(apart):+.1f} ± {stdev(apart) / len(apart) ** 0.5:.1f}"
        yield from (f"{mean[value]:.1f}" for value in ("partialGangsPercent", "givenUp", "deadlocked"))
        yield from (f"{mean['medianWait'][size]:.2f} / {mean['p95Wait'][size]:.2f}" for size in sizes)
        yield f"{mean['longestWait']:.2f}"

    return table(
        (
            "start",
            "useful %",
            "beside `alone`",
            "partial gangs %",
            "given up",
            "deadlocked",
            "wait: single pods",
            "3-4 pods",
            "9-16 pods",
            "longest wait",
        ),
        *([*line(start)] for start in useful),
    )


def scrapes() -> str:
    """The levels of detail of /metrics, and what a scrape takes."""
    return table(
        ("level", "series", "size of a scrape", "first scrape", "nothing changed", "every node changed"),
        *(
            (
                f"`{row['detail']}`",
                f"{row['series']:,}",
                f"{row['bytes'] / 1000:,.0f} kB",
                *(f"{row[f'{state}Seconds']:.2f} s" for state in ("first", "unchanged", "allChanged")),
            )
            for row in _result("metrics")["rows"]
        ),
    )


# The page


def the_page() -> str:
    measured = _result("page")
    stream, browser = measured["stream"], measured["browser"]

    def bytes_of(state: str) -> str:
        wire, text = (stream[f"{state}{kind}"] / 1000 for kind in ("Bytes", "TextBytes"))
        return f"{wire:.2g} kB on the wire ({text:,.0f} kB of text)"

    def frame(way: str) -> str:
        return f"{browser[f'{way}FrameP50Ms']:.0f} ms (p95 {browser[f'{way}FrameP95Ms']:.0f} ms)"

    def latency(case: str) -> str:
        row = measured["filter"][case]
        return f"p50 {row['p50Us'] / 1000:.1f} ms, p99 {row['p99Us'] / 1000:.1f} ms"

    return table(
        ("", ""),
        ("the first state", f"{bytes_of('first')}, {stream['firstSeconds']:.1f} s after the first request"),
        ("changes in a second", bytes_of("change")),
        (
            "in the browser",
            f"drawn {browser['firstSeconds']:.1f} s after opening; the map in {browser['mapMs']:.0f} ms, the"
            f" list in {browser['listMs']:.0f} ms; {browser['nodesInDocument']} of {measured['nodes']:,}"
            " nodes in the document",
        ),
        (
            "a frame while the list is scrolled",
            f"{frame('reading')} at 2,000 pixels a second, {frame('flicking')} at 8,000",
        ),
        ("filter's latency without a viewer", latency("alone")),
        ("filter's latency with three open pages", latency("watched")),
    )


# Claims


def claimed(scheduler: str) -> str:
    """The percentages of the draws, in words."""
    *most, last = (f"{each['allocatedPercent'][scheduler]:.1f}" for each in _result("claims")["results"])
    return f"{', '.join(most)} and {last} %"


FIGURES: Mapping[str, Callable[[], str]] = {
    "time to filter": time_to_filter,
    "time of a new request": time_of_a_new_request,
    "wire latency": wire_latency,
    "time of scores": time_of_scores,
    "beside peers": beside_peers,
    "peers that fit": peers_that_fit,
    "first answer of HAMi": first_answer,
    "HAMi on a busy machine": partial(busy_peer, "HAMi"),
    "gpushare on a busy machine": partial(busy_peer, "gpushare"),
    "ready": partial(ready_after, "live"),
    "ready with DRA": partial(ready_after, "live-dra"),
    "memory with DRA": partial(peak_memory, "live-dra"),
    "nominated": nominated,
    "pods per second on the newest": pods_per_second_on_the_newest,
    "pods per second": pods_per_second,
    "different pods without": partial(time_for_different_pods, STOCK.name),
    "different pods with": partial(time_for_different_pods, OURS.name),
    "packing": packing,
    "packing at 130": packing_at_130,
    "packing by trace": packing_by_trace,
    "packing by policy": packing_by_policy,
    **{
        f"{policy} at {load} beside published": partial(beside_published, load, policy == "FGD")
        for policy in ("FGD", "others")
        for load in ("100", "130")
    },
    **{
        f"fragmented by {policy}": partial(fragmented_on_default, policy)
        for policy in ("fgd", "best-fit", "random")
    },
    "other forecasts": other_forecasts,
    "churn": churn,
    "families": families,
    "MIG": mig,
    "speed of decisions": speed_of_decisions,
    "gangs over time": gangs_over_time,
    "scrapes": scrapes,
    "the page": the_page,
    "claims, stock": partial(claimed, "stock"),
    "claims": partial(claimed, "ours"),
}
