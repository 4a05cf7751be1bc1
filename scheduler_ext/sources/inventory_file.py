"""Reads an inventory file in a child process. Decoding a large cluster fragments the heap. In the serving
process that would slow down every later request (decoding 5000 names took about half as long again), and
reading would block the interpreter for longer. So a child process reads the file, and only the result is
transferred, in one piece."""

import contextlib
import gc
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scheduler_ext.core.dra.known_claims import KnownClaims
from scheduler_ext.core.errors import InventoryError, UnreadableFileError
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.gpu.readings import NodeReadings
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo, PendingPod
from scheduler_ext.core.node.pod_facts import FactsOfPods
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.sources.clusterstate import file_state
from scheduler_ext.wire.node_info import node_constraints

# The order of the last good reports: (bootID, sequence) by node.
Sequences = Mapping[str, tuple[str | None, int | None]]
# Every node by name, the demand expected from the pods, the pods that wait, the fields of each Node
# that kube-scheduler's own filters compare, the claims, the activity of the GPUs, and the facts about their
# pods.
Nodes = tuple[
    Mapping[str, NodeInfo],
    Workload,
    Sequence[PendingPod],
    Mapping[str, NodeFacts],
    KnownClaims,
    NodeReadings,
    FactsOfPods,
]
# The child has its own limits for reading; the largest file takes it less than this.
CHILD_S = 600.0
# A killed child ends at once unless it waits for a disk.
_END_S = 2.0


def read_nodes(path: Path, resources: ResourceNames, last: Sequences) -> Nodes:
    """Every node of an inventory file. Raises InventoryError naming file, object and field."""
    previous = {
        name: NodeInfo(name, report=Report((), boot_id=boot_id, sequence=sequence))
        for name, (boot_id, sequence) in last.items()
    }
    state = file_state(path, resources, previous)
    facts = {name: node_constraints(node) for name, node in state.objects.nodes.items()}
    claims = state.claims.known_claims() if state.claims is not None else KnownClaims()
    return state.infos, state.workload, state.pending, facts, claims, state.readings, state.facts


def read_nodes_apart(path: Path, resources: ResourceNames, last: Sequences) -> Nodes:
    """`read_nodes` in a child process. Raises InventoryError, also when the child is killed."""
    child = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        stdout, stderr = child.communicate(pickle.dumps((path, resources, last)), timeout=CHILD_S)
    except subprocess.TimeoutExpired:
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=_END_S)
        raise UnreadableFileError(f"{path}: not read within {CHILD_S:g} s") from None
    if child.returncode:
        said = stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise InventoryError(
            f"{path}: reading it ended with status {child.returncode}: {said or 'no message'}"
        )
    # The collector would take two thirds of the time to walk the growing heap, which holds no garbage.
    gc.disable()
    try:
        result: Nodes | InventoryError = pickle.loads(stdout)
    finally:
        gc.enable()
    if isinstance(result, InventoryError):
        raise result
    return result


def main() -> None:
    """The child: a request on stdin, the nodes or the error on stdout."""
    # The process ends after this one file.
    gc.disable()
    result: Nodes | InventoryError
    try:
        result = read_nodes(*pickle.load(sys.stdin.buffer))
    except InventoryError as error:
        result = error
    sys.stdout.buffer.write(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    main()
