"""The command group, and how errors leave it."""

from __future__ import annotations

from typing import Any

import click

from scheduler_ext import __version__
from scheduler_ext.cli.agent import agent
from scheduler_ext.cli.check_config import check_config
from scheduler_ext.cli.demo import demo
from scheduler_ext.cli.explain import explain
from scheduler_ext.cli.inventory import inventory
from scheduler_ext.cli.reasons import reasons
from scheduler_ext.cli.serve import serve
from scheduler_ext.core.errors import SchedulerExtError


class _Group(click.Group):
    """Errors meant for the user leave as one line on stderr and exit 1; anything else is a bug and shows."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SchedulerExtError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="scheduler-ext")
def main() -> None:
    """GPU-aware scheduler extender for kube-scheduler."""


for _command in (serve, agent, inventory, explain, reasons, check_config, demo):
    main.add_command(_command)
