"""Reads an inventory file in a child process.

Decoding a large cluster fragments the heap. In the serving process that would slow down every later request
(decoding 5000 names took about half as long again), and reading would block the interpreter for longer. So a
child process reads the file, and only the result is transferred, in one piece.
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
from scheduler_ext.wire.node_info import node_constraints
from scheduler_ext.wire.objects import (
    Objects,
    assemble,
    read_objects,
    refuse_without_nodes,
    waiting,
    workload_of,
)

# The order of the last good reports: (bootID, sequence) by node.
Sequences = Mapping[str, tuple[str | None, int | None]]
# The child has its own limits for reading; the largest file takes it less than this.
CHILD_S = 600.0
# A killed child ends at once unless it waits for a disk.
_END_S = 2.0


class Nodes(NamedTuple):
    """Every node by name, the demand expected from the pods, the pods that wait for a node, and the fields of
    each Node that kube-scheduler's own filters compare."""

    infos: dict[str, NodeInfo]
    workload: Workload
    pending: list[PendingPod]
    facts: dict[str, NodeFacts]


def load_objects(path: Path) -> Objects:
    """The objects of an inventory file. Raises InventoryError naming the file; UnreadableFileError where it
    cannot be read."""
    try:
        return read_objects(read_file(path))
    except OSError as error:
        # A file that is too large stays so until it changes.
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
    """The same, in a child process. Raises InventoryError, also when the child is killed."""
    returncode, stdout, stderr = _run(path, pickle.dumps((path, resources, last)))
    if returncode:
        said = stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise InventoryError(f"{path}: reading it ended with status {returncode}: {said or 'no message'}")
    result = _loads(stdout)
    if isinstance(result, InventoryError):
        raise result
    return result


def _run(path: Path, request: bytes) -> tuple[int, bytes, bytes]:
    """The child's status, stdout and stderr. Raises UnreadableFileError where it does not end."""
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
    """Unpickle with the garbage collector off: it would take two thirds of the time to walk the growing heap,
    which holds no garbage."""
    gc.disable()
    try:
        result = pickle.loads(pickled)
        return result if isinstance(result, InventoryError) else Nodes(*result)
    finally:
        gc.enable()


def main() -> None:
    """The child: a request on stdin, the nodes or the error on stdout."""
    # The process ends after this one file.
    gc.disable()
    result: tuple[object, ...] | InventoryError
    try:
        # A class of this module belongs to __main__ here, and could not be unpickled there.
        result = tuple(read_nodes(*pickle.load(sys.stdin.buffer)))
    except InventoryError as error:
        result = error
    sys.stdout.buffer.write(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    main()
