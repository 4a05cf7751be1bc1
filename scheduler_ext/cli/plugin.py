"""``kubectl gpu-placement``: the commands about a live cluster, under the name that kubectl looks for."""

from __future__ import annotations

import click

from scheduler_ext import __version__
from scheduler_ext.cli.group import CommandGroup
from scheduler_ext.cli.lazy_commands import LazyCommands

NAME = "kubectl gpu-placement"
_NAMES = ("why", "nodes", "node", "pods", "explain", "capacity", "simulate", "reasons", "completion")


@click.group(
    cls=CommandGroup,
    commands=LazyCommands("scheduler_ext.cli", _NAMES),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name=NAME)
def plugin() -> None:
    """Where pods with GPUs are, why they wait, and what would fit.

    Without --kubeconfig every command asks the cluster that kubectl would.
    """


def main() -> None:
    """The entry point ``kubectl-gpu_placement``."""
    plugin(prog_name=NAME)
