"""Random walks through everything that happens to gangs: the pure planner never leaves one started in part
for long, and none waits for another for ever. `make test-long` walks more than 100,000 steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from random import Random
from typing import TypeVar

import pytest

from scheduler_ext.core.request.gang_request import GangRequest, OnDeadline
from scheduler_ext.features.gangs.planning.gang_deadline import DeadlinePolicy
from scheduler_ext.features.gangs.planning.gang_step import GangPolicy
from scheduler_ext.features.gangs.planning.plan import State
from tests.examples import LONG
from tests.features.gangs.planning.gang_world import World, key_of
from tests.features.gangs.planning.memory_cluster import ALL, ZONE, Ask, Host, packs_in_domain

T = TypeVar("T")

DEADLINE_S = 20.0
STEPS = 50
# Rounds of planning after which each gang that fits has run, when nothing happens any more.
ROUNDS = 80


class Walk:
    """A cluster on which something happens at each step, by the numbers of a generator."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.log: list[str] = []
        small = self._choice(False, True)
        hosts = {
            f"node-{i}": Host(
                4 if small and i % 2 else 8, "A100" if i == 3 else "H100", self._choice("a", "b")
            )
            for i in range(self.random.randint(2, 5))
        }
        policy = GangPolicy(
            DeadlinePolicy(DEADLINE_S), ALL, preempts=self._choice(False, True), starting_s=0.0
        )
        self.world = World(hosts, policy)

    def run(self) -> None:
        steps: list[Callable[[], None]] = [
            self.single_arrives,
            self.gang_arrives,
            self.gang_arrives,
            self.members_are_created,
            self.pod_is_deleted,
            self.node_dies,
            self.node_returns,
            self.time_passes,
            self.pods_are_scheduled,
            self.planner_steps,
            self.planner_and_scheduler_step,
            self.planner_and_scheduler_step,
            self.planner_dies_after_some_writes,
        ]
        for _ in range(STEPS):
            step = self.random.choice(steps)
            self.log.append(step.__name__)
            step()
            self._no_gpu_is_in_use_twice()
        self._everything_ends()

    def _choice(self, *values: T) -> T:
        return self.random.choice(values)

    def _any_of(self, names: Collection[str]) -> str:
        """One of these names, empty if there is none."""
        return self.random.choice(sorted(names)) if names else ""

    # The cluster and its users.

    def _ask(self) -> Ask:
        return Ask(self._choice(1, 1, 2, 2, 4, 8), self._choice("", "", "", "H100", "H100", "A100"))

    def single_arrives(self) -> None:
        stated, runs_s = self._choice(None, 5.0, 30.0, 100.0), self._choice(None, 5.0, 30.0, 100.0)
        if stated is not None and (runs_s is None or runs_s > stated):
            runs_s = stated
        self.world.add_single(self._ask(), self._choice(0, 0, 0, 10), stated, runs_s)

    def gang_arrives(self) -> None:
        if len(self.world.workloads) >= 5:
            return
        name = self.world.name("gang")
        gang_request = GangRequest(
            key_of(name),
            self.random.randint(2, 5),
            self._choice(None, None, ZONE),
            self._choice(None, ZONE),
            None,
            self._choice(OnDeadline.EVICT, OnDeadline.EVICT, OnDeadline.HOLD),
        )
        kinds = [self._ask()] * 3 + [self._ask()]
        asks = [
            self._choice(*kinds) if self._choice(False, True) else kinds[0] for _ in range(gang_request.size)
        ]
        self.world.add_gang(gang_request, asks, self._choice(0, 0, 0, 10))
        self.world.create_members(name, self._choice(1, 5, 5, 5))

    def members_are_created(self) -> None:
        if name := self._any_of(self.world.workloads):
            self.world.create_members(name, self.random.randint(1, 5))

    def pod_is_deleted(self) -> None:
        if uid := self._any_of(self.world.pods):
            self.world.delete(uid)

    def node_dies(self) -> None:
        if len(self.world.hosts) > 1:
            self.world.kill_node(self._any_of(self.world.hosts))

    def node_returns(self) -> None:
        if name := self._any_of(self.world.dead):
            self.world.revive_node(name)

    def time_passes(self) -> None:
        self.world.advance(self._choice(1.0, 1.0, 5.0, 30.0))

    def pods_are_scheduled(self) -> None:
        self.world.schedule()

    # The planner.

    def planner_steps(self) -> None:
        self._plan_and_check()

    def planner_and_scheduler_step(self) -> None:
        self._plan_and_check()
        self.world.schedule()

    def planner_dies_after_some_writes(self) -> None:
        self.world.forget_incarnation()
        self.world.plan(self.random.randint(0, 6))
        self.world.previous = ()

    def _plan_and_check(self) -> None:
        self.world.forget_incarnation()
        first_fits = self._first_gang_that_fits()
        decisions = self.world.plan()
        self._no_gang_runs_in_part_too_long()
        self._no_place_is_given_twice()
        if first_fits is not None:
            planned = {e.gang.key.name for e in decisions.verdicts if e.gang and e.state is State.PLANNED}
            assert first_fits in planned, f"{first_fits} fits and is first, but is not started"

    # What holds.

    def _no_gpu_is_in_use_twice(self) -> None:
        for node, used in self.world.used().items():
            assert used <= self.world.hosts[node].gpus, f"{node} has {used} GPUs in use"

    def _no_place_is_given_twice(self) -> None:
        for node, held in self.world.held().items():
            if node in self.world.hosts:
                assert held <= self.world.hosts[node].gpus, f"{node} has {held} GPUs held"

    def _no_gang_runs_in_part_too_long(self) -> None:
        world = self.world
        for name, workload in world.workloads.items():
            if workload.request.on_deadline is OnDeadline.HOLD or not world.bound(name):
                continue
            if workload.whole_at is None and workload.lifted_at is not None:
                late = world.now - workload.lifted_at
                whole = len(world.bound(name)) >= workload.request.size
                assert whole or late < DEADLINE_S, f"{name} runs in part {late} s after its gates went"
            if workload.whole_at is not None:
                back = [pod for pod in world.pods.values() if pod.of == name and pod.node is None]
                waits = max((world.now - pod.created_at for pod in back), default=0.0)
                assert waits < DEADLINE_S, f"{name} runs in part while a pod waits for {waits} s"

    def _first_gang_that_fits(self) -> str | None:
        """The gang that is first of everything that waits, if it fits beside all that is held for gangs that
        have begun."""
        world = self.world
        gangs = world.gangs()
        begun = [gang for gang in gangs if gang.has_begun]
        if any(gang.joining or (gang.missing and not gang.has_started) for gang in begun):
            return None
        ready = [gang for gang in gangs if not gang.has_begun and not gang.missing]
        if not ready:
            return None
        gang = min(ready, key=lambda gang: (-gang.priority, gang.created_at))
        order = -gang.priority, gang.created_at
        if any((-pod.priority, pod.created_at) <= order for pod in world.singles()):
            return None
        if any((-each.priority, each.created_at) == order for each in ready if each is not gang):
            return None
        asks = [member.ask for member in gang.joining]
        if len(set(asks)) > 1:  # an exhaustive search may find what one place after the other does not
            return None
        free = {name: host.gpus - world.used()[name] for name, host in world.hosts.items()}
        return gang.key.name if packs_in_domain(gang.request, asks, world.hosts, free) else None

    def _everything_ends(self) -> None:
        """Once no node dies any more, every gang that fits on the cluster starts and ends, though small pods
        keep arriving and take what is free."""
        world = self.world
        crowded = self._choice(False, True)
        for name in list(world.dead):
            world.revive_node(name)
        for pod in world.pods.values():
            if pod.of is None and pod.runs_s is None:
                pod.runs_s = 10.0
        empty = {name: host.gpus for name, host in world.hosts.items()}
        for name, each in list(world.workloads.items()):
            if len(set(each.asks)) > 1 or not packs_in_domain(each.request, each.asks, world.hosts, empty):
                world.finish_gang(name)
        for _ in range(ROUNDS):
            self._round(crowded)
            if not world.workloads:
                return
        stuck = {
            name: Counter(pod.state.value for pod in world.pods.values() if pod.of == name)
            for name in world.workloads
        }
        raise AssertionError(f"gangs that fit have not started: {stuck}")

    def _round(self, crowded: bool) -> None:
        """All pods of gangs exist, the planner and kube-scheduler have a turn, and whole gangs end."""
        world = self.world
        for name in world.workloads:
            world.create_members(name, 9)
        for _ in range(2 * len(world.hosts) - len(world.singles()) if crowded else 0):
            world.add_single(Ask(self._choice(1, 1, 2)), 0, None, self._choice(5.0, 10.0, 20.0))
        self._plan_and_check()
        world.schedule()
        self._no_gpu_is_in_use_twice()
        world.advance(3.0)
        for name, workload in list(world.workloads.items()):
            if len(world.bound(name)) >= workload.request.size:
                world.finish_gang(name)


@pytest.mark.parametrize("first", range(0, 2400 if LONG else 48, 12))
def test_gangs_start_whole_on_a_random_walk(first: int) -> None:
    for seed in range(first, first + 12):
        walk = Walk(seed)
        try:
            walk.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}; after {', '.join(walk.log)}") from error
