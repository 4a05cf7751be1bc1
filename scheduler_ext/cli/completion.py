"""`scheduler-ext completion`: shell completion of commands and options."""

import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

_SHELLS = ("bash", "zsh", "fish")
# kubectl reads one completion a line, then a directive of cobra: complete files too, or not.
_FILES, _NO_FILES = ":0", ":4"


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    bash: source <(scheduler-ext completion bash)
    """
    root = ctx.find_root()
    program = "scheduler-ext" if " " in (root.info_name or "") else root.info_name or "scheduler-ext"
    variable = f"_{program}_COMPLETE".replace("-", "_").upper()
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(root.command, {}, program, variable).source())


def kubectl_complete() -> None:
    """The entry point `kubectl_complete-gpu_placement`, called by kubectl with the words so far."""
    from scheduler_ext.cli.plugin import NAME, plugin

    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(plugin, {}, NAME, "").get_completions(words, incomplete)
    for item in found:
        if item.type == "plain":
            click.echo(item.value + (f"\t{item.help}" if item.help else ""))
    click.echo(_NO_FILES if all(item.type == "plain" for item in found) else _FILES)
