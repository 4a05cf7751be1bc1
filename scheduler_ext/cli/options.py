"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from scheduler_ext.cli.complete_names import complete_contexts, complete_namespaces
from scheduler_ext.core.errors import ConfigError
from scheduler_ext.wire.durations import duration_s

Command = TypeVar("Command", bound=Callable[..., Any] | click.Command)


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one, which help shows in this order."""

    def all_of_them(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return all_of_them


inventory_option = click.option(
    "--inventory",
    "inventory_file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="File of GPUNode, Node and Pod objects, such as `kubectl get gpunodes,nodes,pods -A -o yaml`; - for "
    "standard input.",
)
kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="The cluster of this kubeconfig, as it is now; $KUBECONFIG or ~/.kube/config without.",
)
followed_option = click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="The cluster of this kubeconfig, followed."
)
log_format_option = click.option(
    "--log-format", type=click.Choice(["json", "text"]), default="text", show_default=True
)
context_option = click.option(
    "--context",
    shell_complete=complete_contexts,
    help="Another context of the kubeconfig than its current one.",
)
config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="ExtenderConfiguration file; defaults without.",
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "name", "json", "yaml"]),
    default="table",
    show_default=True,
)

namespace_option = click.option(
    "-n",
    "--namespace",
    shell_complete=complete_namespaces,
    help="The namespace; that of the context without.",
)

# What is asked about one pod on one cluster.
one_pod_options = together(
    click.option(
        "-f",
        "--filename",
        type=click.Path(path_type=Path, allow_dash=True),
        required=True,
        help="File with a Pod, or a workload with a pod template; - for standard input.",
    ),
    click.option("--pod", "pod_name", help="Which pod of the file, where it has several."),
    namespace_option,
    inventory_option,
    kubeconfig_option,
    context_option,
    config_option,
    output_option,
)


class Duration(click.ParamType[float]):
    """A duration such as 5s or 2m30s, in seconds."""

    name = "duration"

    def __init__(self, least_s: float, most_s: float) -> None:
        self._least_s = least_s
        self._most_s = most_s

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return duration_s("duration", str(value), self._least_s, self._most_s)
        except ConfigError as error:
            self.fail(str(error).removeprefix("duration: "), param, ctx)


def check_context(kubeconfig: Path | None, context: str | None) -> None:
    """Raises click.UsageError for a context of no kubeconfig."""
    if context is not None and kubeconfig is None:
        raise click.UsageError("--context: a context is one of a kubeconfig's; give --kubeconfig too")
