"""Files of pods and of workloads, and standard input, which can be read once."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from scheduler_ext.core.errors import InventoryError
from scheduler_ext.wire import kube
from scheduler_ext.wire.files import read_file, read_stream
from scheduler_ext.wire.manifests import Manifest, every_pod, in_namespace
from scheduler_ext.wire.objects import read_manifests

STDIN = "-"
_STDIN_READ = "scheduler_ext.stdin_read"
# Names in one line of an error.
_SHOWN_NAMES = 10


def read_input(path: Path) -> bytes:
    """The bytes of a file, or of standard input. Raises OSError; click.UsageError for reading it again."""
    if str(path) != STDIN:
        return read_file(path)
    meta = click.get_current_context().meta
    if meta.get(_STDIN_READ):
        raise click.UsageError("-: standard input can be read only once; give a file for one of the two")
    meta[_STDIN_READ] = True
    return read_stream(sys.stdin.buffer)


def read_pod_list(filename: Path, namespace: str, *, only: bool) -> list[Manifest]:
    """The pods of a file, or of standard input; those that name no namespace are in this one.

    With ``only``, none may be in another. Raises InventoryError naming the file.
    """
    try:
        return in_namespace(read_manifests(read_input(filename)), namespace, only=only)
    except OSError as error:
        raise InventoryError(f"{filename}: {error.strerror or error}") from None
    except InventoryError as error:
        raise InventoryError(f"{filename}: {error}") from None


def read_pod(filename: Path, namespace: str, *, only: bool, name: str | None = None) -> Manifest:
    """The only pod of a file, or the one of this name, as ``read_pod_list`` reads it.

    Raises InventoryError naming the file.
    """
    manifests = read_pod_list(filename, namespace, only=only)
    chosen = manifests if name is None else [each for each in manifests if each.name == name]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(each.name for each in manifests[:_SHOWN_NAMES])
    more = f" and {len(manifests) - _SHOWN_NAMES} more" if manifests[_SHOWN_NAMES:] else ""
    found = f"{len(chosen)} pods in it" if name is None else f"{len(chosen) or 'no'} pods {name!r:.80} in it"
    raise InventoryError(f"{filename}: {found}; choose one: {names}{more}")


def every_pod_of(manifests: list[Manifest], filename: Path) -> list[kube.Pod]:
    """Every pod that the manifests of a file want. Raises InventoryError naming the file."""
    try:
        return every_pod(manifests)
    except InventoryError as error:
        raise InventoryError(f"{filename}: {error}") from None
