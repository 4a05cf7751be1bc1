"""Options of the commands that ask a live cluster, as kubectl's own commands take them."""

from __future__ import annotations

from pathlib import Path

import click

from scheduler_ext.cli.answers import SOURCES, Answers, answers
from scheduler_ext.cli.kubeconfig import kubeconfig_path
from scheduler_ext.cli.options import config_option, together
from scheduler_ext.cli.sources import read_config

live_options = together(
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
namespace_option = click.option("-n", "--namespace", help="The namespace; that of the context without.")
all_namespaces_option = click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")
named_output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "name", "json", "yaml"]),
    default="table",
    show_default=True,
)


def asked(
    kubeconfig: Path | None,
    context: str | None,
    source: str,
    extender_namespace: str,
    config_file: Path | None,
) -> Answers:
    """Whoever answers. Raises ClusterError, ConfigError, click.UsageError."""
    config = read_config(config_file)
    return answers(kubeconfig_path(kubeconfig), context, source, extender_namespace, config)


def chosen_namespace(namespace: str | None, kubeconfig: Path | None, context: str | None) -> str:
    """The namespace that was asked for, or that of the context. Raises ClusterError."""
    if namespace is not None:
        return namespace
    from scheduler_ext.cluster.transport import kubeconfig_namespace

    return kubeconfig_namespace(kubeconfig_path(kubeconfig), context)
