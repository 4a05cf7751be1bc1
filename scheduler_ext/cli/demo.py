"""``scheduler-ext demo``: a real extender on a sample inventory, with the requests of kube-scheduler."""

import sys

import click

from scheduler_ext.cli.output import print_table


@click.command()
@click.option("--once", is_flag=True, help="Exit after the table.")
@click.option(
    "--port",
    # Health and inspection use the next two ports.
    type=click.IntRange(0, 65533),
    default=8888,
    show_default=True,
    help="Port of the API; 0 for any free port.",
)
def demo(once: bool, port: int) -> None:
    """Serve a sample inventory and place sample pods on it.

    Sends 15 pods to the extender, as kube-scheduler would, and prints the decisions.
    """
    from scheduler_ext.demo.run import run_demo

    run_demo(print_table, serve_on=not once and sys.stdout.isatty(), port=port)
