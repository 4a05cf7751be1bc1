"""`scheduler-ext completion`: shell completion of commands and options."""

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


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
