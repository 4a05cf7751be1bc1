"""`scheduler-ext cost`: the value of GPUs per hour, by model and by namespace."""

from typing import Any

import click

from scheduler_ext.cli.files import config_option
from scheduler_ext.cli.inputs import ClusterInput, source_options
from scheduler_ext.cli.options import output_option
from scheduler_ext.cli.output import Columns, print_items, print_notes, print_output, show
from scheduler_ext.feature import installed
from scheduler_ext.features.cost.cost_report import cost_report
from scheduler_ext.views.value_account import ALSO_IDLE
from scheduler_ext.wire.config import Configuration


@click.command()
@source_options()
@config_option
@output_option
def cost(source: ClusterInput, config: Configuration, output: str) -> None:
    """Show what GPUs cost per hour, by model and by namespace.

    Shows the value that pods hold, the part of it that is idle, and the value that is free, stranded or
    unavailable. The prices are the values of the configuration.
    """
    state = source.state(config)
    snapshot = state.snapshot(config.sizing())
    report = cost_report(snapshot, state.readings, state.facts, config, source.moment(state))
    print_output(output, report, "namespace", (each["namespace"] for each in report["namespaces"]), _print)


def _print(report: dict[str, Any], *, wide: bool) -> None:
    """The table of models, and of namespaces; with `wide` a line for each model of a namespace."""
    total = report["total"]
    show(f"{total['total']:.2f} {report['currency']} per hour for {total['gpus']:g} GPUs")
    click.echo()
    print_items(_MODELS, [*report["models"], {"model": "total", **total}], wide=wide)
    if report["namespaces"]:
        click.echo()
        print_items(_NAMESPACES, _lines(report, wide=wide), wide=wide)
    print_notes(_notes(report))


def _lines(report: dict[str, Any], *, wide: bool) -> list[dict[str, Any]]:
    lines = []
    for each in report["namespaces"]:
        if wide:
            lines += [each | model | {"models": model["model"]} for model in each["models"]]
        else:
            lines.append(each | {"models": ", ".join(model["model"] for model in each["models"])})
    return lines


def _notes(report: dict[str, Any]) -> list[str]:
    notes = []
    if report["total"]["unmeasured"]:
        notes.append("UNMEASURED is a part of ALLOCATED for which no report says whether it computes")
    if report["total"]["idle"]:
        commands = {command.name for feature in installed() for command in feature.commands}
        listed = "; `idle` lists pods without any work" if "idle" in commands else ""
        notes.append(f"IDLE counts GPUs, {ALSO_IDLE}{listed}")
    if left_out := report["nodesLeftOut"]:
        notes.append(f"without the GPUs of {len(left_out)} nodes that no agent reports any more")
    return notes


def _money(name: str) -> Any:
    return lambda item: f"{item[name]:.2f}"


_HELD: Columns = {name.upper(): _money(name) for name in ("allocated", "idle", "unmeasured")}
_MODELS: Columns = {
    "MODEL": "model",
    "GPUS": lambda item: f"{item['gpus']:g}",
    "TOTAL": _money("total"),
    **_HELD,
    **{name.upper(): _money(name) for name in ("free", "stranded", "unavailable")},
}
_NAMESPACES: Columns = {"NAMESPACE": "namespace", **_HELD, "MODELS": "models"}
