"""`scheduler-ext reasons` and `check-config`: meanings of rejections, and a configuration's check."""

import textwrap
from pathlib import Path

import click

from scheduler_ext.cli.files import read_config
from scheduler_ext.cli.output import print_structured, show
from scheduler_ext.core.filters import REASONS
from scheduler_ext.core.gpu.value_table import unlisted
from scheduler_ext.explain.explain import API_VERSION


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    help="Form of the output.",
)
def reasons(output: str) -> None:
    """List the reasons for rejected nodes.

    Shows the meaning and the remedy of each reason.
    """
    if output != "table":
        items = [{"reason": r.text, "meaning": r.meaning, "remedy": r.remedy} for r in REASONS]
        print_structured({"apiVersion": API_VERSION, "kind": "ReasonList", "items": items}, output)
        return
    for reason in REASONS:
        click.echo(reason.text)
        click.echo(textwrap.indent(textwrap.fill(f"means: {reason.meaning}", 96), "    "))
        click.echo(textwrap.indent(textwrap.fill(f"do:    {reason.remedy}", 96), "    "))


@click.command("check-config")
@click.argument("file", type=click.Path(path_type=Path))
def check_config(file: Path) -> None:
    """Check a configuration of the extender.

    If the file is invalid, prints the key and the fix, and exits with 1. Notes name values of models that are
    not in the shipped table: they may be misspelt.
    """
    for model in unlisted(read_config(file).policy().values):
        show(
            f"Note: values.{model}: the shipped table has no such model; it counts for GPUs of this name",
            err=True,
        )
    click.echo(f"{file}: ok")
