"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scheduler_ext.core.errors import ConfigError
from scheduler_ext.extender.clusterstate import ClusterState, file_state
from scheduler_ext.wire.config import Configuration, duration_s, load_config

inventory_option = click.option(
    "--inventory",
    "inventory_file",
    type=click.Path(path_type=Path),
    help="File of GPUNode, Node and Pod objects, such as `kubectl get gpunodes,nodes,pods -A -o yaml`.",
)
kubeconfig_option = click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="The cluster of this kubeconfig, as it is now."
)
log_format_option = click.option(
    "--log-format", type=click.Choice(["json", "text"]), default="text", show_default=True
)
context_option = click.option("--context", help="Another context of the kubeconfig than its current one.")
config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="ExtenderConfiguration file; defaults without.",
)
output_option = click.option(
    "-o", "--output", type=click.Choice(["table", "wide", "json", "yaml"]), default="table", show_default=True
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


def read_config(path: Path | None) -> Configuration:
    """The configuration of a file, or the defaults. Raises ConfigError naming file and key."""
    if path is None:
        return Configuration()
    try:
        return load_config(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def one_source(**flags: object) -> None:
    """Raises click.UsageError unless exactly one of these was given."""
    names = [f"--{name.replace('_', '-')}" for name in flags]
    given = [name for name, value in zip(names, flags.values(), strict=True) if value]
    if len(given) != 1:
        which = " and ".join(given) + " are too many" if given else "nothing to read from"
        raise click.UsageError(f"{which}: give one of {', '.join(names)}")


def read_state(
    inventory_file: Path | None, kubeconfig: Path | None, context: str | None, config: Configuration
) -> ClusterState:
    """The cluster of a file, or a live one. Raises InventoryError, ClusterError, click.UsageError."""
    one_source(inventory=inventory_file, kubeconfig=kubeconfig)
    if inventory_file is not None:
        return file_state(inventory_file, config)
    assert kubeconfig is not None
    # Here, because importing the client takes longer than most commands.
    from scheduler_ext.cluster.once import cluster_state
    from scheduler_ext.cluster.transport import Transport

    state = cluster_state(Transport.from_kubeconfig(kubeconfig, context), str(kubeconfig), config)
    for problem in state.problems:
        click.echo(f"warning: {problem}", err=True)
    return state
