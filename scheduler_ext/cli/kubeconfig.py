"""Which kubeconfig commands read where none is named."""

from __future__ import annotations

import os
from pathlib import Path

import click

# What the root of a command's contexts carries where the cluster of kubectl is meant unless told otherwise.
LIVE = "live"


def kubeconfig_path(given: Path | None) -> Path:
    """The kubeconfig that kubectl would read. Raises click.UsageError where there is none."""
    if given is not None:
        return given
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    found = next((path for path in [*named, Path.home() / ".kube" / "config"] if path.is_file()), None)
    if found is None:
        raise click.UsageError("no kubeconfig: give --kubeconfig, or set KUBECONFIG")
    return found


def implied_kubeconfig(inventory: Path | None, kubeconfig: Path | None) -> Path | None:
    """The kubeconfig given; as a kubectl plugin that of kubectl, where no file is given either."""
    context = click.get_current_context(silent=True)
    if inventory is None and kubeconfig is None and context is not None and context.find_root().obj == LIVE:
        return kubeconfig_path(None)
    return kubeconfig
