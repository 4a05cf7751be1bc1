"""`scheduler-ext recommend`: how much GPU memory workloads should ask."""

from typing import Any

import click

from scheduler_ext.cli.files import config_option
from scheduler_ext.cli.inputs import ClusterInput, source_options
from scheduler_ext.cli.options import duration, output_option
from scheduler_ext.cli.output import Columns, print_items, print_notes, print_output
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.features.idle.recommend.recommendations import recommendation_list
from scheduler_ext.wire.config import Configuration


@click.command()
@source_options()
@click.option(
    "--min-age",
    type=duration(0, 366 * 86400),
    default="24h",
    help="Age of the oldest observed pod before a workload gets a smaller request.",
)
@config_option
@output_option
def recommend(source: ClusterInput, min_age: float, config: Configuration, output: str) -> None:
    """Recommend GPU memory, MIG profiles or smaller models from observed peaks.

    Shows for each container of each workload what it asks, the most that it used, and a smaller or larger
    request with what that would free. Nothing is applied.
    """
    state = source.state(config, with_controllers=True)
    found = recommendation_list(state, config, source.moment(state), min_age)
    names = (_name(item) for item in found["items"])
    print_output(output, found, "workload", names, _print)


def _name(item: dict[str, Any]) -> str:
    return f"{item['namespace']}/{item['targetRef']['kind']}/{item['targetRef']['name']}"


def _print(found: dict[str, Any], *, wide: bool) -> None:
    """A line for each container; with `wide` a line for each way to ask less."""
    lines = [
        {"workload": _name(item), "currency": found["currency"], "option": option, **each}
        for item in found["items"]
        for each in item["recommendation"]["containerRecommendations"]
        for option in ((each["options"] if wide else each["options"][:1]) or [None])
    ]
    if not lines:
        click.echo("No pods with GPUs", err=True)
        return
    print_items(_COLUMNS if wide else _NARROW, lines, wide=wide)
    print_notes(
        f"{_name(item)} {each['containerName']}: {note}"
        for item in found["items"]
        for each in item["recommendation"]["containerRecommendations"]
        for note in each["notes"]
    )


def _amounts(resources: dict[str, Any] | None) -> str:
    if resources is None:
        return "-"
    return ", ".join(f"{name.rpartition('/')[2]}={amount}" for name, amount in resources.items())


def _target(line: dict[str, Any]) -> str:
    option = line["option"]
    if option is None:
        if line["verdict"] != "raise":
            return "-"
        ((resource, amount),) = line["target"].items()
        if resource in line["request"] or resource.startswith(MIG_PREFIX):
            return _amounts(line["target"])
        # Of a whole GPU, the target is the memory of each.
        return f"{_amounts(line['request'])} min-memory={amount}Mi"
    model = f" on {option['model']}" if option["kind"] == "model" else ""
    return _amounts(option["resources"]) + model


_COLUMNS: Columns = {
    "WORKLOAD": "workload",
    "CONTAINER": "containerName",
    "SEEN": lambda line: f"{line['observedPods']} of {line['pods']}",
    "ASKS": lambda line: _amounts(line["request"]),
    "PEAK MIB": lambda line: "-" if line["peakMiB"] is None else line["peakMiB"],
    "VERDICT": "verdict",
    "INSTEAD": _target,
    "FREES/H": lambda line: (
        f"{line['option']['frees']['valuePerHour']:.2f} {line['currency']}" if line["option"] else "-"
    ),
    "BECAUSE": "reason",
}
# So that most lines need no second one.
_NARROW = {title: value for title, value in _COLUMNS.items() if title != "SEEN"}
