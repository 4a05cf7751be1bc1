"""Options of the commands that ask a live cluster, as kubectl's own commands take them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.answers import SOURCES, Answers, answers
from scheduler_ext.cli.complete_names import complete_namespaces
from scheduler_ext.cli.inputs import read_config
from scheduler_ext.cli.kubeconfig_paths import kubeconfig_of
from scheduler_ext.cli.options import config_option, context_option, together
from scheduler_ext.cluster.client.kubeconfig import Kubeconfig


@dataclass(frozen=True, slots=True)
class Live:
    """Which cluster is asked, and who of it."""

    kubeconfig: Kubeconfig
    source: str
    extender_namespace: str
    config_file: Path | None

    def answers(self) -> Answers:
        """Whoever answers. Raises ClusterError, ConfigError."""
        config = read_config(self.config_file)
        return answers(self.kubeconfig, self.source, self.extender_namespace, config)

    def namespace(self, chosen: str | None) -> str:
        """The namespace that was asked for, or that of the context. Raises ClusterError."""
        return self.kubeconfig.namespace() if chosen is None else chosen


_options = together(
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="The kubeconfig; $KUBECONFIG or ~/.kube/config without.",
    ),
    context_option,
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
        shell_complete=complete_namespaces,
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
        read = kubeconfig_of(kubeconfig, context)
        command(*args, live=Live(read, source, extender_namespace, config_file), **others)

    return _options(with_live)


all_namespaces_option = click.option(
    "-A", "--all-namespaces", is_flag=True, help="All namespaces, also beside -n."
)

# Whoever is used to kubectl gives them to any command; it takes them for nodes, too.
_NO_NAMESPACE = "Nodes are in no namespace; taken, as kubectl takes it, and without effect."
without_namespace_options = together(
    click.option(
        "-n",
        "--namespace",
        shell_complete=complete_namespaces,
        expose_value=False,
        help=_NO_NAMESPACE,
    ),
    click.option(
        "-A",
        "--all-namespaces",
        is_flag=True,
        expose_value=False,
        help=_NO_NAMESPACE,
    ),
)
