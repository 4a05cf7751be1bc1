"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from scheduler_ext.core.errors import ConfigError
from scheduler_ext.wire.config import Configuration, load_config

inventory_option = click.option(
    "--inventory",
    "inventory_file",
    type=click.Path(path_type=Path),
    required=True,
    help="File of GPUNode, Node and Pod objects, such as `kubectl get gpunodes,nodes,pods -A -o yaml`.",
)
config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="ExtenderConfiguration file; defaults without.",
)
output_option = click.option(
    "-o", "--output", type=click.Choice(["table", "wide", "json", "yaml"]), default="table", show_default=True
)


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
