"""Errors in a report's fields, and the parts that MIG instances and devices have in common."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

from scheduler_ext.core.gpu.gpu import Holder
from scheduler_ext.wire.gpunode import HolderStatus

_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,95}")


class FieldError(ValueError):
    """An error in a report: a field path and its problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"status.{path}: {problem}")


def check_unique(values: Iterable[tuple[str, Hashable]]) -> None:
    """Raises FieldError for a value that occurs at a second path."""
    seen: dict[Hashable, str] = {}
    for path, value in values:
        if value in seen:
            raise FieldError(path, f"{value!r} is that of {seen[value]} already")
        seen[value] = path


def check_uuid(path: str, uuid: str) -> None:
    """Raises FieldError for text that is no UUID: pods carry UUIDs in an annotation, separated by commas."""
    if not uuid:
        raise FieldError(path, "is empty; a device is known by its UUID")
    if not _UUID.fullmatch(uuid):
        raise FieldError(path, f"{uuid!r} is no UUID; those have letters, digits and . _ : / - only")


def read_holder(path: str, entry: HolderStatus, total_mib: int) -> Holder:
    """The holder of a device, or of an instance on one, of this much memory. Raises FieldError."""
    if entry.memory_mib is not None and entry.memory_mib > total_mib:
        raise FieldError(f"{path}.memoryMiB", f"{entry.memory_mib} MiB of a device of {total_mib}")
    return Holder(entry.uid or None, entry.namespace, entry.name, entry.container or None, entry.memory_mib)
