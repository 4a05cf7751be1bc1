"""The simulator decides as the server does: equal states, nodes, points and GPUs."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.cycle import TOTAL_DECIMALS, filter_nodes, points
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.node.node import NO_NEIGHBOURS, Node, NodeState, Slot
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.sim.generator import MIXED, generate_nodes, generate_pods
from scheduler_ext.sim.node_states import NodeStates
from scheduler_ext.sim.placement_policy import Target
from scheduler_ext.sim.policies.default import Default, request_of
from scheduler_ext.sim.scheduler import Scheduler, Settings
from scheduler_ext.sim.trace_workload import PodKind, model_of, task_class, workload_of
from scheduler_ext.sim.world import Cluster, NodesView, TraceNode, World
from scheduler_ext.wire.config import Configuration, ScoreSection
from tests.sim.server_side import (
    MODELS,
    RESOURCES,
    Running,
    Server,
    clusters,
    info_of,
    lived_in,
    several_kinds,
    steps,
    uuid_of,
    workloads,
)

_HEADROOM = 0
_SHIPPED = ScoreSection()


def simulated(world: World, node: int) -> NodeState:
    """The simulator's state of a node."""
    states = NodeStates(world.cluster)
    rooms = sorted(world.room_milli[: int(world.cluster.gpus[node]), node].tolist())
    return states.of(states.key(node, rooms, int(world.cpu_free[node]))).state


def served(world: World, node: int, running: list[Running]) -> Node:
    """The server's state of the node."""
    return resolve(info_of(world.cluster, node, running), RESOURCES, _HEADROOM)


def without_unread_fields(state: NodeState) -> NodeState:
    """The state without the permitted differences.

    Whether a full GPU has one pod or several; the remaining amounts of the node, which are never less than
    those of its GPUs; how easily its pods are evicted, which matters only to pods with a priority; and
    whether a node without GPUs has a report.
    """
    return replace(
        state,
        slots=tuple(slot if slot.idle else _full(slot) for slot in state.slots),
        limits=(),
        share_limit=0,
        estimated=False,
        neighbours=NO_NEIGHBOURS,
    )


def _full(slot: Slot) -> Slot:
    units = tuple(replace(unit, free_mib=0) for unit in slot.units)
    return replace(slot, share_free_mib=-1, units=units)


def limits_bind(state: NodeState) -> bool:
    """Whether a node's amounts allow less than its GPUs."""
    left = {name: limit for name, _, limit in state.limits}
    units = [unit for slot in state.slots for unit in slot.units]
    return state.share_limit < sum(max(slot.share_free_mib, 0) for slot in state.slots) or any(
        left[name] < sum(unit.free for unit in units if unit.resource == name) for name in left
    )


@given(clusters(), steps)
def test_a_node_is_in_the_same_state(cluster: Cluster, steps: list[tuple[PodKind, int, bool]]) -> None:
    world, running = lived_in(cluster, steps)
    for node in range(len(cluster)):
        ours, theirs = simulated(world, node), served(world, node, running).state
        assert without_unread_fields(ours) == without_unread_fields(theirs)
        assert not limits_bind(ours)
        assert not limits_bind(theirs)


@given(clusters(most=4), steps, workloads, several_kinds)
def test_no_decision_sees_the_differences(
    cluster: Cluster, steps: list[tuple[PodKind, int, bool]], workload: Workload, kinds: list[PodKind]
) -> None:
    world, running = lived_in(cluster, steps)
    both: dict[str, Node] = {}
    for node in range(len(cluster)):
        theirs = served(world, node, running)
        both[f"server {node}"] = theirs
        both[f"simulator {node}"] = replace(theirs, state=simulated(world, node))
    snapshot = build_snapshot(both, 1, forecast=Forecast(workload, ()))
    for kind in kinds:
        decision = filter_nodes(request_of(kind), snapshot, SchedulingPolicy())
        for node in range(len(cluster)):
            pair = snapshot.state_of[snapshot.rows([f"server {node}", f"simulator {node}"])]
            ours, theirs = decision.totals[pair].tolist()
            assert ours == theirs
            if kind.is_share and ours > -np.inf:
                slots = decision.scoring.fit.slots[0][pair].tolist()  # type: ignore[union-attr]
                assert slots[0] == slots[1]


class Both:
    """The simulator and the server on one world."""

    def __init__(
        self,
        world: World,
        running: list[Running],
        workload: Workload,
        ties: str = "first",
        limit: int = 0,
        score: ScoreSection = _SHIPPED,
    ) -> None:
        self.world, self.running = world, running
        target = Target(world.cluster, workload, knobs=Configuration(score=score).policy())
        self.policy = Default(target)
        self.scheduler = Scheduler(world, Default(target), Settings(ties=ties))
        self.server = Server(world.cluster, running, workload, limit, score)
        self.limit, self.first = limit, ties == "first"

    def agree(self, kind: PodKind, order: random.Random) -> Running | None:
        """The chosen node; both choose the same."""
        world, names = self.world, self.world.cluster.names
        # kube-scheduler's own filters run first; it asks about the remaining nodes in any order.
        able = np.flatnonzero((world.cpu_free >= kind.cpu_milli) & (world.memory_free >= kind.memory_mib))
        totals = self.policy.evaluate(kind, NodesView(world, able)).score
        of_cluster = self.policy.of_cluster(kind, world)
        if of_cluster is not None:
            totals = np.round(totals + of_cluster[able], TOTAL_DECIMALS)
        fits = totals > -np.inf
        resolution = self.policy.resolution(kind, world)
        ours = dict(
            zip((names[node] for node in able[fits]), points(totals[fits], resolution).tolist(), strict=True)
        )
        asked = [names[node] for node in able]
        order.shuffle(asked)
        theirs = self.server.fitting(kind, asked)
        if kind.gpus and self.limit and len(ours) > self.limit:
            # The server returns the best nodes only; names decide among equals at the edge.
            assert len(theirs) == self.limit
            assert set(theirs) <= set(ours)
            worst = min(ours[name] for name in theirs)
            assert all(name in theirs for name in ours if ours[name] > worst)
        else:
            assert set(theirs) == set(ours)
            assert self.server.points(kind, theirs) == {name: ours[name] for name in theirs}
        chosen = self.scheduler.choose(kind)
        assert (chosen is None) == (not ours)
        if chosen is None:
            return None
        best = [node for node in able.tolist() if ours.get(names[node]) == 10]
        assert chosen.node in best
        if self.first:
            assert chosen.node == best[0]
        device = self.server.device(kind, chosen.node, self.running)
        if kind.is_share:
            assert device == uuid_of(chosen.node, chosen.slots[0])
        return Running(len(self.running), kind, chosen.node, chosen.slots)


@given(
    clusters(),
    steps,
    workloads,
    several_kinds,
    st.sampled_from(("first", "random")),
    st.sampled_from((0, 2, 100)),
    st.sampled_from(
        (
            _SHIPPED,
            ScoreSection(weights={"residual-value": 0.0, "balance": 3.0}),
            ScoreSection(strategy="binpack"),
            ScoreSection(strategy="spread", weights={"model-scarcity": 0.0}),
        )
    ),
)
def test_the_same_nodes_with_the_same_points_and_the_same_gpu(
    cluster: Cluster,
    steps: list[tuple[PodKind, int, bool]],
    workload: Workload,
    kinds: list[PodKind],
    ties: str,
    limit: int,
    score: ScoreSection,
) -> None:
    world, running = lived_in(cluster, steps)
    both = Both(world, running, workload, ties, limit, score)
    for kind in kinds:
        both.agree(kind, random.Random(len(steps)))


def test_the_fewer_gpus_of_a_model_are_idle_the_scarcer_it_is() -> None:
    cluster = Cluster.of(
        [
            TraceNode("a", 96_000, 100_000, 1, MODELS[0]),
            TraceNode("b", 96_000, 100_000, 1, MODELS[0]),
            TraceNode("c", 96_000, 100_000, 1, MODELS[1]),
        ]
    )
    wanted, other = PodKind(1000, 1000, 1, 1000, (MODELS[0],)), PodKind(1000, 1000, 1, 500)
    workload = Workload.of({task_class(wanted): 1.0, task_class(other): 4.0})
    server = Server(cluster, [], workload, 0)

    def scarcity() -> dict[str, float]:
        assert server.snapshot is not None
        return dict(
            zip((m.name for m in server.snapshot.models), server.snapshot.scarcity.tolist(), strict=True)
        )

    first, second = (model_of(name).name for name in MODELS[:2])
    # A third of all demand is for the first model, which has two of three idle GPUs, then one of two.
    assert scarcity() == {first: pytest.approx((1 / 3 * 3 / 2) ** 2), second: 0.0}
    server.follow(0, [Running(0, wanted, 0, (0,))])
    assert scarcity() == {first: pytest.approx((1 / 3 * 2 / 1) ** 2), second: 0.0}
    server.follow(0, [Running(0, wanted, 0, (0,)), Running(1, wanted, 1, (0,))])
    server.follow(1, [Running(0, wanted, 0, (0,)), Running(1, wanted, 1, (0,))])
    assert scarcity() == {first: 1.0, second: 0.0}


@pytest.mark.process
@pytest.mark.parametrize(
    ("ties", "score", "family"),
    [
        pytest.param("first", _SHIPPED, "cpu-tight", id="short of CPU"),
        pytest.param("random", _SHIPPED, MIXED, id="random"),
        pytest.param("first", ScoreSection(strategy="binpack"), MIXED, id="binpack"),
    ],
)
def test_a_whole_run_of_the_simulator_is_one_of_the_server(
    ties: str, score: ScoreSection, family: str
) -> None:
    nodes = generate_nodes(14, 3, family)
    cluster, pods = Cluster.of(nodes), generate_pods(nodes, 3, family)
    world, running = World(cluster), list[Running]()
    both = Both(world, running, workload_of(pods), ties, score=score)
    order = random.Random(ties)
    for pod in order.choices(pods, k=120):
        placed = both.agree(pod.kind, order)
        changed = []
        if placed is not None:
            world.place(placed.kind, placed.node, placed.slots)
            running.append(placed)
            changed.append(placed)
        if running and order.random() < 0.2:
            changed.append(running.pop(order.randrange(len(running))))
            world.release(changed[-1].kind, changed[-1].node, changed[-1].slots)
        for node in {each.node for each in changed}:
            both.server.follow(node, running)
    assert len(running) > 40
    again = Server(cluster, running, workload_of(pods), 0)
    for node, name in enumerate(cluster.names):
        followed, built_whole = (
            each.snapshot.nodes[name].state for each in (both.server, again) if each.snapshot is not None
        )
        assert followed == built_whole
        assert without_unread_fields(followed) == without_unread_fields(simulated(world, node))
