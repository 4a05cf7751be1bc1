"""Results of simulations as a SimulationReport, as CSV, and as means over seeds."""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import stdev
from typing import Any

import msgspec
from msgspec import Struct, field

API_VERSION = "cli.scheduler-ext.io/v1alpha1"


class Run(Struct, frozen=True, kw_only=True, rename="camel"):
    """One policy on one sequence of pods; fields that do not apply are None. `allocation_percent` is by
    arrived load in per cent, as text. `ties` are those of the run, "first" or "random". Amounts are in
    thousandths of a GPU (of a slice for MIG), values in US dollars, `rejected_by_class` by the class of the
    request. With a sample of the nodes, `false_refusals` are tries in which no examined node took a pod while
    another one would have. With gangs, `start` is how their pods start, and `jobs` and the waits, in mean
    lifetimes, are by the number of pods of a job."""

    trace: str
    policy: str
    ties: str | None = None
    start: str | None = None
    seed: int
    allocation_percent: Mapping[str, float] | None = None
    mean_allocation_percent: float | None = None
    useful_allocation_percent: float | None = None
    partial_gangs_percent: float | None = None
    slice_acceptance_percent: float | None = None
    unallocated_gpus: float | None = None
    whole_nodes_free: float | None = None
    allocated_value_per_hour: float | None = None
    fragmentation_percent_at_90: float | None = None
    arrived_milli: int
    allocated_milli: int
    rejected_milli: int
    waiting_milli: int | None = None
    rejected_by_class: Mapping[str, int] = field(default_factory=dict[str, int])
    evicted_milli: int | None = None
    false_refusals: int | None = None
    tries_per_pod: float | None = None
    most_tries: int | None = None
    given_up: int | None = None
    deadlocked: int | None = None
    longest_wait: float | None = None
    jobs: Mapping[str, int] | None = None
    median_wait: Mapping[str, float] | None = None
    p95_wait: Mapping[str, float] | None = None
    decisions_per_second: float
    p99_ms: float

    def as_json(self) -> dict[str, Any]:
        """As in a SimulationReport: camelCase names, rounded numbers."""
        values = {name: _rounded(value) for name, value in msgspec.to_builtins(self).items()}
        return values | {"decisionsPerSecond": round(self.decisions_per_second, 1)}


# The values with a mean over the seeds of one policy on one trace, by their name in JSON. The second have no
# standard error: they depend on the load of the machine more than on the seed.
_PLACED = (
    "meanAllocationPercent",
    "usefulAllocationPercent",
    "partialGangsPercent",
    "sliceAcceptancePercent",
    "unallocatedGpus",
    "wholeNodesFree",
    "allocatedValuePerHour",
    "fragmentationPercentAt90",
    "evictedMilli",
    "falseRefusals",
    "triesPerPod",
    "mostTries",
    "givenUp",
    "deadlocked",
    "longestWait",
)
# The same, of values by arrived load or by the number of pods of a job.
_BY_NAME = ("allocationPercent", "medianWait", "p95Wait")
_BY_SIZE = ("jobs", "medianWait", "p95Wait")
_TIMED = ("decisionsPerSecond", "p99Ms")
_Statistic = Callable[[Sequence[float]], float | None]


def report(runs: Sequence[Run], machine: str) -> dict[str, Any]:
    """The SimulationReport of all runs; `machine` is the line of `machine_line`."""
    return {
        "apiVersion": API_VERSION,
        "kind": "SimulationReport",
        "machine": machine,
        "runs": [run.as_json() for run in runs],
        "summary": summary(runs),
    }


def summary(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The mean over seeds for each trace, policy and start, in the order of the runs. `standardError`
    has the errors of the means by the same names; it is None for one seed."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in runs:
        key = run.trace, run.policy, run.ties, run.start
        groups.setdefault(key, []).append(run.as_json())
    return [
        {
            "trace": trace,
            "policy": policy,
            "ties": ties,
            "start": start,
            "seeds": len(group),
            **{name: _by_name(_mean, group, name) for name in _BY_NAME},
            "rejectedByClass": _by_class(_mean, group),
            **{name: _known(_mean, [run[name] for run in group]) for name in (*_PLACED, *_TIMED)},
            "standardError": None if len(group) < 2 else _errors(group),
        }
        for (trace, policy, ties, start), group in groups.items()
    ]


def as_csv(runs: Sequence[Run]) -> str:
    """One line per run with the values of the JSON. Each arrived load, each class with rejected requests and
    each size of jobs has a column of its own, after the others."""
    classes = sorted({name for run in runs for name in run.rejected_by_class})
    loads = list(dict.fromkeys(load for run in runs for load in run.allocation_percent or {}))
    sizes = list(dict.fromkeys(name for run in runs for name in run.jobs or {}))
    rows = []
    for run in runs:
        row = run.as_json()
        by_load = row.pop("allocationPercent") or {}
        rejected = row.pop("rejectedByClass")
        by_size = {name: row.pop(name) or {} for name in _BY_SIZE} if sizes else {}
        rows.append(
            row
            | {f"allocationPercent{load}": by_load.get(load) for load in loads}
            | {f"rejectedMilli.{name}": rejected.get(name, 0) for name in classes}
            | {f"{name}.{size}": values.get(size) for name, values in by_size.items() for size in sizes}
        )
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def _errors(group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        **{name: _by_name(standard_error, group, name) for name in _BY_NAME},
        "rejectedByClass": _by_class(standard_error, group),
        **{name: _known(standard_error, [run[name] for run in group]) for name in _PLACED},
    }


def _by_name(
    statistic: _Statistic, group: Sequence[Mapping[str, Any]], field: str
) -> dict[str, float | None] | None:
    """The statistic of each value of a field, such as the allocation at each load. No job of a size may have
    come in one of the runs."""
    known = [run[field] for run in group if run[field] is not None]
    if not known:
        return None
    names = dict.fromkeys(name for values in known for name in values)
    return {name: _known(statistic, [value.get(name) for value in known]) for name in names}


def _by_class(statistic: _Statistic, group: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The statistic of the rejected requests of each class; a run without a class rejected nothing of it."""
    names = sorted({name for run in group for name in run["rejectedByClass"]})
    return {name: _known(statistic, [run["rejectedByClass"].get(name, 0) for run in group]) for name in names}


def _known(statistic: _Statistic, values: Sequence[float | None]) -> float | None:
    """The rounded statistic of the values that are known."""
    found = statistic([value for value in values if value is not None])
    return None if found is None else round(found, 4)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def standard_error(values: Sequence[float]) -> float | None:
    """Of the mean: the deviation of the sample over the root of its size; None for one value."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return round(value, 4) if isinstance(value, float) else value
