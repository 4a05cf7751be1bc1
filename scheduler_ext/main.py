"""The commands `scheduler-ext` and `kubectl gpu-placement`: those of the kernel and of the installed
features. Exit status: 0 fits, 1 error, 2 wrong usage, 3 would not fit."""

import sys
from itertools import chain

import click
from click.shell_completion import ShellComplete

from scheduler_ext import __version__
from scheduler_ext.cli.commands import COMMANDS
from scheduler_ext.cli.group import CONTEXT_SETTINGS, CommandGroup, LazyCommands
from scheduler_ext.feature import installed

_PLUGIN = "kubectl gpu-placement"
# kubectl reads one completion a line, then a directive of cobra: complete files too, or not.
_FILES, _NO_FILES = ":0", ":4"
_OF_FEATURES = tuple(chain.from_iterable(feature.commands for feature in installed()))


@click.group(
    cls=CommandGroup,
    # An agent runs on every node and must not hold the extender in memory. click only reads the mapping.
    commands=LazyCommands({"Commands": COMMANDS, "Commands of features": _OF_FEATURES}),
    context_settings=CONTEXT_SETTINGS,
)
@click.version_option(__version__, prog_name="scheduler-ext")
def main() -> None:
    """GPU-aware scheduler extender for kube-scheduler."""


@click.group(
    cls=CommandGroup,
    commands=LazyCommands(
        {
            "Commands": [each for each in COMMANDS if each.plugin],
            "Commands of features": [each for each in _OF_FEATURES if each.plugin],
        }
    ),
    context_settings=CONTEXT_SETTINGS,
)
@click.version_option(__version__, prog_name=_PLUGIN)
def plugin() -> None:
    """Show where GPU pods are, why they wait, and what would fit.

    Without --kubeconfig, commands use the cluster that kubectl uses.
    """


def kubectl() -> None:
    """The entry point `kubectl-gpu_placement`, the name that kubectl looks for."""
    plugin(prog_name=_PLUGIN)


def kubectl_complete() -> None:
    """The entry point `kubectl_complete-gpu_placement`, called by kubectl with the words so far."""
    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(plugin, {}, _PLUGIN, "").get_completions(words, incomplete)
    for item in found:
        if item.type == "plain":
            click.echo(item.value + (f"\t{item.help}" if item.help else ""))
    click.echo(_NO_FILES if all(item.type == "plain" for item in found) else _FILES)
