"""What a shell may complete from a kubeconfig or its cluster; nothing, and not a word, where that fails."""

from __future__ import annotations

import functools
from collections.abc import Callable
from urllib.parse import quote

import click

from scheduler_ext.cli.kubeconfig_paths import kubeconfig_of
from scheduler_ext.cluster.client.kubeconfig import Kubeconfig
from scheduler_ext.core.errors import SchedulerExtError

# Whoever pressed a key waits for this.
_TIMEOUT_S = 2.0
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _beginning(found: Callable[[click.Context], list[str]]) -> Complete:
    """Of these names those that begin as the word does."""

    @functools.wraps(found)
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        try:
            names = found(ctx)
        except (SchedulerExtError, click.ClickException):
            return []
        return [name for name in names if name.startswith(incomplete)]

    return complete


@_beginning
def complete_contexts(ctx: click.Context) -> list[str]:
    """The contexts of the kubeconfig."""
    return kubeconfig_of(ctx.params.get("kubeconfig"), None).contexts()


@_beginning
def complete_namespaces(ctx: click.Context) -> list[str]:
    """The namespaces of the cluster."""
    return _names(_kubeconfig(ctx), "/api/v1/namespaces")


@_beginning
def complete_nodes(ctx: click.Context) -> list[str]:
    """The nodes of the cluster."""
    return _names(_kubeconfig(ctx), "/api/v1/nodes")


@_beginning
def complete_pods(ctx: click.Context) -> list[str]:
    """The pods of the namespace that the command is about."""
    kubeconfig = _kubeconfig(ctx)
    namespace = ctx.params.get("namespace") or kubeconfig.namespace()
    return _names(kubeconfig, f"/api/v1/namespaces/{quote(namespace, safe='')}/pods")


def _kubeconfig(ctx: click.Context) -> Kubeconfig:
    return kubeconfig_of(ctx.params.get("kubeconfig"), ctx.params.get("context"))


def _names(kubeconfig: Kubeconfig, path: str) -> list[str]:
    # Here, because importing the client takes longer than most commands.
    from scheduler_ext.cluster.client.transport import Transport

    transport = Transport(kubeconfig.configuration())
    try:
        return transport.names(path, _TIMEOUT_S)
    finally:
        transport.close()
