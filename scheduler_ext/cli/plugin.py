"""`kubectl gpu-placement`: the commands about a live cluster, under the name that kubectl looks for."""

import click

from scheduler_ext import __version__
from scheduler_ext.cli.group import CLUSTER_COMMANDS, CONTEXT_SETTINGS, CommandGroup, LazyCommands

NAME = "kubectl gpu-placement"


@click.group(
    cls=CommandGroup,
    commands=LazyCommands("scheduler_ext.cli", CLUSTER_COMMANDS),
    context_settings=CONTEXT_SETTINGS,
)
@click.version_option(__version__, prog_name=NAME)
def plugin() -> None:
    """Show where GPU pods are, why they wait, and what would fit.

    Without --kubeconfig, commands use the cluster that kubectl uses.
    """


def main() -> None:
    """The entry point `kubectl-gpu_placement`."""
    plugin(prog_name=NAME)
