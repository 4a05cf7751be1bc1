"""Which kubeconfig commands read where none is named: the one that kubectl would."""

from __future__ import annotations

import os
from pathlib import Path

import click

from scheduler_ext.cluster.client.kubeconfig import Kubeconfig
from scheduler_ext.core.errors import ClusterError

_NONE = "no kubeconfig: give --kubeconfig, or set KUBECONFIG"


def kubeconfig_of(given: Path | None, context: str | None) -> Kubeconfig:
    """The file given, those of $KUBECONFIG, or ~/.kube/config.

    Raises click.UsageError where nothing says which; ClusterError where what is named is not there.
    """
    found = implied_kubeconfig(context) if given is None else Kubeconfig((given,), context)
    if found is None:
        raise click.UsageError(_NONE)
    return found


def implied_kubeconfig(context: str | None) -> Kubeconfig | None:
    """Those of $KUBECONFIG, or ~/.kube/config; None where neither is. Raises ClusterError."""
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    try:
        there = tuple(path for path in named or [Path.home() / ".kube" / "config"] if path.exists())
    except OSError as error:
        raise ClusterError(f"kubeconfig {error.filename}: {error.strerror}") from None
    if named and not there:
        names = os.pathsep.join(map(str, named))
        raise ClusterError(f"kubeconfig {names}: No such file or directory; $KUBECONFIG names it")
    return Kubeconfig(there, context) if there else None
