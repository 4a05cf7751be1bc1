"""Reads an inventory file in a process of its own.

Decoding a large cluster leaves millions of freed pieces behind. In the process that answers, they would
scatter every later request over the whole heap (decoding 5000 names took about half as
long again), and reading would take the interpreter from requests for longer. So a child reads, and only the
result comes over, in one piece.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from scheduler_ext.core.errors import InventoryError, UnreadableFileError
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo, PendingPod
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.files import FileTooLargeError, read_file
from scheduler_ext.wire.listed_demand import workload_of
from scheduler_ext.wire.node_info import node_constraints
from scheduler_ext.wire.objects import Objects, assemble, read_objects, refuse_without_nodes, waiting

# What the last good reports said of their order: (bootID, sequence) by node.
Sequences = Mapping[str, tuple[str | None, int | None]]
# The child waits for a file by limits of its own; it needs no longer than this for the largest of them.
CHILD_S = 600.0
# A child that was killed ends at once, but for one that waits for a disk.
_END_S = 2.0


class Nodes(NamedTuple):
    """Every node by name, what the pods there say of those to come, who waits for a node, and what
    kube-scheduler's own filters compare of each Node."""

    infos: dict[str, NodeInfo]
    workload: Workload
    pending: list[PendingPod]
    facts: dict[str, NodeFacts]


def load_objects(path: Path) -> Objects:
    """The objects of an inventory file. Raises InventoryError naming the file; UnreadableFileError where no
    bytes of it can be had."""
    try:
        return read_objects(read_file(path))
    except OSError as error:
        # One that is too large stays so until it changes.
        kind = InventoryError if isinstance(error, FileTooLargeError) else UnreadableFileError
        raise kind(f"{path}: {error.strerror or error}") from None
    except InventoryError as error:
        raise type(error)(f"{path}: {error}") from None


def read_nodes(path: Path, resources: ResourceNames, last: Sequences) -> Nodes:
    """Every node of an inventory file. Raises InventoryError naming file, object and field."""
    previous = {
        name: NodeInfo(name, report=Report((), boot_id=boot_id, sequence=sequence))
        for name, (boot_id, sequence) in last.items()
    }
    objects = load_objects(path)
    try:
        refuse_without_nodes(objects)
        nodes = assemble(objects, resources, previous)
        facts = {name: node_constraints(node) for name, node in objects.nodes.items()}
        return Nodes(nodes, workload_of(objects.pods, resources), waiting(objects, resources), facts)
    except InventoryError as error:
        raise type(error)(f"{path}: {error}") from None


def read_nodes_apart(path: Path, resources: ResourceNames, last: Sequences) -> Nodes:
    """The same, by a child process. Raises InventoryError, also when the child is killed."""
    returncode, stdout, stderr = _run(path, pickle.dumps((path, resources, last)))
    if returncode:
        said = stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise InventoryError(f"{path}: reading it ended with status {returncode}: {said or 'no message'}")
    result = _loads(stdout)
    if isinstance(result, InventoryError):
        raise result
    return result


def _run(path: Path, request: bytes) -> tuple[int, bytes, bytes]:
    """The child's status and what it said. Raises UnreadableFileError where it does not end."""
    child = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        stdout, stderr = child.communicate(request, timeout=CHILD_S)
    except subprocess.TimeoutExpired:
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=_END_S)
        raise UnreadableFileError(f"{path}: not read within {CHILD_S:g} s") from None
    return child.returncode, stdout, stderr


def _loads(pickled: bytes) -> Nodes | InventoryError:
    """Unpickled while the collector rests: it would walk the growing heap again and again, for two thirds of
    the time, and nothing of it is garbage."""
    gc.disable()
    try:
        result = pickle.loads(pickled)
        return result if isinstance(result, InventoryError) else Nodes(*result)
    finally:
        gc.enable()


def main() -> None:
    """The child: a request on stdin, the nodes or the error on stdout."""
    # It lives for this one file.
    gc.disable()
    result: tuple[object, ...] | InventoryError
    try:
        # A class of this module is one of __main__ here, and of nothing there.
        result = tuple(read_nodes(*pickle.load(sys.stdin.buffer)))
    except InventoryError as error:
        result = error
    sys.stdout.buffer.write(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    main()
