"""Options of the commands that ask a live cluster, as kubectl's own commands take them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.answers import SOURCES, Answers, answers
from scheduler_ext.cli.kubeconfig import kubeconfig_path
from scheduler_ext.cli.options import config_option, together
from scheduler_ext.cli.sources import read_config


@dataclass(frozen=True, slots=True)
class Live:
    """Which cluster is asked, and who of it."""

    kubeconfig: Path | None
    context: str | None
    source: str
    extender_namespace: str
    config_file: Path | None

    def answers(self) -> Answers:
        """Whoever answers. Raises ClusterError, ConfigError, click.UsageError."""
        config = read_config(self.config_file)
        path = kubeconfig_path(self.kubeconfig)
        return answers(path, self.context, self.source, self.extender_namespace, config)

    def namespace(self, chosen: str | None) -> str:
        """The namespace that was asked for, or that of the context. Raises ClusterError."""
        if chosen is not None:
            return chosen
        from scheduler_ext.cluster.transport import kubeconfig_namespace

        return kubeconfig_namespace(kubeconfig_path(self.kubeconfig), self.context)


_options = together(
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="The kubeconfig; $KUBECONFIG or ~/.kube/config without.",
    ),
    click.option("--context", help="Another context of the kubeconfig than its current one."),
    click.option(
        "--from",
        "source",
        type=click.Choice(SOURCES),
        default="auto",
        show_default=True,
        help="Who answers: the active extender, or the cluster's own objects; auto: the extender if it can.",
    ),
    click.option(
        "--extender-namespace",
        default="gpu-scheduler",
        show_default=True,
        help="Where the extender runs.",
    ),
    config_option,
)


def live_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options as ``live``."""

    @functools.wraps(command)
    def with_live(
        *args: Any,
        kubeconfig: Path | None,
        context: str | None,
        source: str,
        extender_namespace: str,
        config_file: Path | None,
        **others: Any,
    ) -> None:
        command(*args, live=Live(kubeconfig, context, source, extender_namespace, config_file), **others)

    return _options(with_live)


namespace_option = click.option("-n", "--namespace", help="The namespace; that of the context without.")
all_namespaces_option = click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")
