"""`scheduler-ext autoscaler-config`: the configuration of an autoscaler from a table of node groups."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from scheduler_ext.cli.files import naming, read_input
from scheduler_ext.cli.options import FILE_OR_STDIN
from scheduler_ext.cli.output import print_structured, show
from scheduler_ext.core.errors import ConfigError
from scheduler_ext.features.autoscaling.node_groups.cluster_autoscaler import (
    cluster_autoscaler_commands,
    cluster_autoscaler_notes,
    cluster_autoscaler_settings,
)
from scheduler_ext.features.autoscaling.node_groups.gke import gke_commands, gke_notes, gke_settings
from scheduler_ext.features.autoscaling.node_groups.karpenter import karpenter_notes, karpenter_objects
from scheduler_ext.features.autoscaling.node_groups.node_facts import memory_notes
from scheduler_ext.features.autoscaling.node_groups.table import NodeGroups, load_node_groups


class _Autoscaler(NamedTuple):
    """How one autoscaler is configured: plain values, commands, and what it cannot do of the table."""

    settings: Callable[[NodeGroups], dict[str, Any]]
    commands: Callable[[NodeGroups], Iterator[str]] | None
    notes: Callable[[NodeGroups], list[str]] = lambda _: []


_AUTOSCALERS = {
    "karpenter": _Autoscaler(karpenter_objects, None, karpenter_notes),
    "cluster-autoscaler": _Autoscaler(
        cluster_autoscaler_settings, cluster_autoscaler_commands, cluster_autoscaler_notes
    ),
    "gke": _Autoscaler(gke_settings, gke_commands, gke_notes),
}


@click.command("autoscaler-config")
@click.option(
    "--for",
    "autoscaler",
    type=click.Choice(list(_AUTOSCALERS)),
    required=True,
    help="The autoscaler.",
)
@click.option(
    "-f",
    "--filename",
    type=FILE_OR_STDIN,
    required=True,
    help="File with the table of node groups; - reads standard input.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "yaml"]),
    show_default="yaml for karpenter, otherwise commands for a shell",
    help="Structured output.",
)
def autoscaler_config(autoscaler: str, filename: Path, output: str | None) -> None:
    """Generate the configuration of an autoscaler from a table of node groups.

    Prints objects for `kubectl apply` (karpenter), or commands and flags (cluster-autoscaler, gke). Writes
    nothing to any cluster or cloud.
    """
    chosen = _AUTOSCALERS[autoscaler]
    with naming(filename, ConfigError):
        table = load_node_groups(read_input(filename))
        notes = (*chosen.notes(table), *memory_notes(table.groups))
        settings = chosen.settings(table)
        commands = list(chosen.commands(table)) if output is None and chosen.commands is not None else None
    for note in notes:
        show(f"Note: {note}", err=True)
    if commands is None:
        print_structured(settings, output or "yaml")
        return
    for command in commands:
        show(command)
