"""Execution of a plan on a live cluster, pod by pod: room is held on the nodes where it comes free, a pod
is evicted through the Eviction API, and the next step waits until the pod is created again and has a node.
Before each step the rest of the plan is checked on the present cluster."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from scheduler_ext.cluster.api_paths import GPU_NODES, pod_path
from scheduler_ext.cluster.client.transport import RefusedError, Transport, is_transient
from scheduler_ext.cluster.one_shot import cluster_state
from scheduler_ext.core.errors import ClusterError, InventoryError, PodError
from scheduler_ext.features.defrag.evictions import NOT_FOUND, POLL_S, evict
from scheduler_ext.features.defrag.live_rooms import LiveRooms
from scheduler_ext.features.defrag.movable import Rules
from scheduler_ext.features.defrag.moves import Hold, Move
from scheduler_ext.features.defrag.plan import PlacementGoal, PodOutcome
from scheduler_ext.features.defrag.recheck import broken, names, still_waiting
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gpunode import read_gpu_node
from scheduler_ext.wire.report import read_report

# Extenders hear of a held room from their watch, usually within a fraction of this.
SETTLE_S = 2.0
# Agents read their node every 5 s, and write a change at once.
REPORTED_S = 15.0
# A room has to outlive the step that it was written for.
_SPARE_S = 60.0


@dataclass(frozen=True, slots=True)
class CompletedMove:
    """A move that was made: the pod in the place of the evicted one, and its node."""

    move: Move
    replaced_by: str
    node: str


@dataclass(slots=True)
class Execution:
    """What was done; `problem` says why it stopped before its end, `pending` are the moves that were not
    made, and `nodes` the nodes of the waiting pods that got in, by name."""

    done: list[CompletedMove] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    problem: str | None = None
    pending: Sequence[Move] = ()


class _StoppedError(Exception):
    """The plan does not hold any more."""


class Executor:
    """Executes outcomes of a plan. `say` gets a line for each step. `step_s` is the longest wait for one pod;
    a room outlives a killed process by about as long."""

    def __init__(
        self,
        transport: Transport,
        source: str,
        config: Configuration,
        rules: Callable[[], Rules],
        say: Callable[[str], None],
        *,
        step_s: float,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._transport, self._source, self._config = transport, source, config
        self._rules, self._say = rules, say
        self._step_s, self._settle_s = step_s, settle_s
        self.rooms = LiveRooms(transport, step_s + _SPARE_S)

    def run(self, outcomes: Sequence[PodOutcome]) -> Execution:
        """Make the moves. Ends early, with no room held, where the plan does not hold any more."""
        execution = Execution()
        for i, outcome in enumerate(outcomes):
            if outcome.node is None or not outcome.moves:
                continue
            before = len(execution.done)
            try:
                self._let_in(outcome.wanted, outcome.node, outcome.moves, execution)
            except (_StoppedError, ClusterError, InventoryError, PodError) as error:
                execution.problem = str(error)
                made = len(execution.done) - before
                later = [move for each in outcomes[i + 1 :] for move in each.moves]
                execution.pending = [*outcome.moves[made:], *later]
                return execution
            finally:
                self._release(outcome.wanted.name)
        return execution

    def _release(self, name: str) -> None:
        try:
            self.rooms.release(name)
        except ClusterError as error:
            self._say(f"the held room was not released, and ends by itself: {error}")

    def _let_in(self, wanted: PlacementGoal, node: str, moves: Sequence[Move], execution: Execution) -> None:
        priority = max([wanted.pod_info.request.priority, *(move.pod.bound.priority for move in moves)])
        held: Sequence[Hold] | None = None
        for number, move in enumerate(moves):
            self.rooms.hold(wanted, move.holds, priority)
            if held is None or list(held) != list(move.holds):
                time.sleep(self._settle_s)
            held = move.holds
            there = self._checked(wanted, node, moves[number:])
            if there is not None:
                self._got_in(wanted, there, execution)
                return
            self._make(move, f"{number + 1} of {len(moves)}", execution)
        self.rooms.hold(wanted, moves[-1].holds[:1], priority)
        there = self._checked(wanted, node, ())
        if wanted.gpus is not None:
            self._got_in(wanted, node, execution)
            return
        until = time.monotonic() + self._step_s
        while there is None:
            if time.monotonic() > until:
                raise _StoppedError(f"pod {wanted.name} fits on node {node}, and is not placed yet")
            time.sleep(POLL_S)
            there = self._node_of(wanted)
        self._got_in(wanted, there, execution)

    def _got_in(self, wanted: PlacementGoal, node: str, execution: Execution) -> None:
        execution.nodes[wanted.name] = node
        self._say(f"{wanted.name}: on node {node}")

    def _checked(self, wanted: PlacementGoal, node: str, moves: Sequence[Move]) -> str | None:
        """The node of the waiting pod if it has one. Raises _StoppedError where the plan is broken."""
        state = self._state()
        there, problem = still_waiting(wanted, state)
        if there is not None:
            return there
        problem = problem or broken(wanted, node, moves, state, self._config, self._rules())
        if problem is not None:
            raise _StoppedError(problem)
        return None

    def _state(self) -> ClusterState:
        return cluster_state(
            self._transport, self._source, self._config, with_objects=True, with_waiting=True
        )

    def _node_of(self, wanted: PlacementGoal) -> str | None:
        namespace, _, name = wanted.name.partition("/")
        pod = self._pod(namespace, name)
        if pod is None or pod["metadata"]["uid"] != wanted.pod_info.uid:
            raise _StoppedError(f"pod {wanted.name} does not wait any more: it was deleted")
        node: str | None = pod["spec"].get("nodeName")
        return node

    def _make(self, move: Move, number: str, execution: Execution) -> None:
        """Evict a pod, and wait until its controller has created it again and it has a node."""
        bound = move.pod.bound
        before = {pod["metadata"]["uid"] for pod in self._of_owner(move)}
        self._say(f"{number}: evicting {names([move])} from node {move.pod.node}")
        until = time.monotonic() + self._step_s
        refused = evict(self._transport, bound, until)
        if refused is not None:
            raise _StoppedError(f"the eviction of {names([move])} is refused: {refused}")
        while True:
            try:
                there = self._pod(bound.namespace, bound.name)
                new = [pod for pod in self._of_owner(move) if pod["metadata"]["uid"] not in before]
            except ClusterError as error:
                if not is_transient(error) or time.monotonic() > until:
                    problem = f"pod {names([move])} was evicted, and it is unknown whether it is back"
                    raise _StoppedError(f"{problem}: {error}") from None
                time.sleep(POLL_S)
                continue
            gone = there is None or there["metadata"]["uid"] != bound.uid
            placed = next((pod for pod in new if pod["spec"].get("nodeName")), None)
            if placed is not None and gone:
                name = f"{bound.namespace}/{placed['metadata']['name']}"
                execution.done.append(CompletedMove(move, name, placed["spec"]["nodeName"]))
                self._say(f"{number}: {name} is on node {placed['spec']['nodeName']}")
                self._await_report(move)
                return
            if time.monotonic() > until:
                raise _StoppedError(_late(move, new, still_there=not gone))
            time.sleep(POLL_S)

    def _await_report(self, move: Move) -> None:
        """Wait until the report of the node no longer has the pod that has left, and which counts as a
        stranger on its GPUs meanwhile. Without an answer, the next check decides."""
        until = time.monotonic() + REPORTED_S
        path = f"{GPU_NODES}/{quote(move.pod.node, safe='')}"
        while time.monotonic() < until:
            try:
                report = read_report(read_gpu_node(self._transport.get(path).body))
            except ClusterError as error:
                if not is_transient(error):
                    return
            else:
                if report is None or not any(map(move.pod.bound.is_on, report.devices)):
                    return
            time.sleep(POLL_S)

    def _pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        try:
            return self._transport.json(pod_path(namespace, name))
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise
            return None

    def _of_owner(self, move: Move) -> list[dict[str, Any]]:
        """The pods of the same controller that are not being deleted."""
        path = f"/api/v1/namespaces/{quote(move.pod.bound.namespace, safe='')}/pods"
        found = []
        for pod in self._transport.json(path)["items"]:
            owners = pod["metadata"].get("ownerReferences", ())
            if any(each["uid"] == move.pod.owner.uid and each.get("controller") for each in owners):
                found.append(pod)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def _late(move: Move, new: Sequence[dict[str, Any]], *, still_there: bool) -> str:
    owner = f"{move.pod.owner.kind} {move.pod.owner.name}"
    if still_there:
        return f"pod {names([move])} was evicted and has not ended yet"
    if not new:
        return f"{owner} has not created {names([move])} again"
    return f"pod {new[0]['metadata']['name']} of {owner} has no node yet"
