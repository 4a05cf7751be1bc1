"""``scheduler-ext check-config``: is this configuration one that can be meant?"""

from __future__ import annotations

from pathlib import Path

import click

from scheduler_ext.cli.inputs import read_config


@click.command("check-config")
@click.argument("file", type=click.Path(path_type=Path))
def check_config(file: Path) -> None:
    """Check an ExtenderConfiguration file.

    Exit 1, with the key and the fix, if something is wrong.
    """
    read_config(file)
    click.echo(f"{file}: ok")
