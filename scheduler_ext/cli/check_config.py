"""``scheduler-ext check-config``: validation of a configuration file."""

from __future__ import annotations

from pathlib import Path

import click

from scheduler_ext.cli.inputs import read_config


@click.command("check-config")
@click.argument("file", type=click.Path(path_type=Path))
def check_config(file: Path) -> None:
    """Check an ExtenderConfiguration file.

    If the file is invalid, prints the key and the fix, and exits with 1.
    """
    read_config(file)
    click.echo(f"{file}: ok")
