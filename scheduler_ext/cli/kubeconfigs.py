"""The kubeconfig that a command reads, and shell completion from it or from its cluster. Without --kubeconfig
it is the one that kubectl would read. A completion that fails is empty and silent."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from scheduler_ext.cluster.client.kubeconfig import Kubeconfig
from scheduler_ext.core.errors import ClusterError, SchedulerExtError

if TYPE_CHECKING:
    from scheduler_ext.cluster.client.transport import Transport

# The user waits for a completion at most so long.
_TIMEOUT_S = 2.0
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def kubeconfig_of(
    given: Path | None,
    context: str | None,
    missing: str = "no kubeconfig: give --kubeconfig, or set KUBECONFIG",
) -> Kubeconfig:
    """The file given, those of $KUBECONFIG, or ~/.kube/config. Raises click.UsageError with the text
    `missing` if there is none; ClusterError if $KUBECONFIG names only missing files."""
    if given is not None:
        return Kubeconfig((given,), context)
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    try:
        there = tuple(path for path in named or [Path.home() / ".kube" / "config"] if path.exists())
    except OSError as error:
        raise ClusterError(f"kubeconfig {error.filename}: {error.strerror}") from None
    if there:
        return Kubeconfig(there, context)
    if named:
        names = os.pathsep.join(map(str, named))
        raise ClusterError(f"kubeconfig {names}: No such file or directory; $KUBECONFIG names it")
    raise click.UsageError(missing)


def transport_of(kubeconfig: Kubeconfig) -> Transport:
    """The client for a kubeconfig, imported here because that takes longer than most commands."""
    from scheduler_ext.cluster.client.transport import Transport

    return Transport(kubeconfig.configuration())


def _beginning(found: Callable[[click.Context], list[str]]) -> Complete:
    """The names that begin with the incomplete word."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        try:
            names = found(ctx)
        except (SchedulerExtError, click.ClickException):
            return []
        return [name for name in names if name.startswith(incomplete)]

    return complete


def _names(path: str) -> Complete:
    """The names of the API's objects at this path; `{}` is the chosen namespace."""

    def found(ctx: click.Context) -> list[str]:
        kubeconfig = kubeconfig_of(ctx.params.get("kubeconfig"), ctx.params.get("context"))
        namespace = ctx.params.get("namespace") or kubeconfig.namespace()
        with closing(transport_of(kubeconfig)) as transport:
            return transport.names(path.format(quote(namespace, safe="")), _TIMEOUT_S)

    return _beginning(found)


complete_contexts = _beginning(lambda ctx: kubeconfig_of(ctx.params.get("kubeconfig"), None).contexts())
complete_namespaces = _names("/api/v1/namespaces")
complete_nodes = _names("/api/v1/nodes")
complete_pods = _names("/api/v1/namespaces/{}/pods")
