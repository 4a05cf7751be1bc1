"""Gangs on a cluster that holds two thirds of them, with members that come late or are deleted, nodes that
die, extenders that are killed at every step, and an API server that pauses: no gang runs in part beyond its
deadline, no GPU is promised twice, no two gangs wait for each other, and each gang that fits starts soon.

`GANGS=100` runs the whole proof."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.whole import running_cluster
from tests.e2e.faulty_extender import arm
from tests.e2e.gangs.faulty_gangs import KILLS
from tests.e2e.gangs.gang_cluster import CONFIGURATION, Gangs, installed
from tests.e2e.gangs.gang_owner import Owner, Planned
from tests.e2e.gangs.gang_watch import GangWatch
from tests.e2e.workload import TAINT

pytestmark = pytest.mark.release

GANGS = int(os.environ.get("GANGS", "20"))
SEED = int(os.environ.get("GANGS_SEED", "3"))
AT_ONCE = 12
GPUS = 8
# From the end of the gates to the start of the last member, and until an eviction is seen.
DEADLINE_S, EVICTED_S = 20.0, 10.0
STARTS_S = 30.0
LONGEST_S = 120.0 + 12.0 * GANGS
# Shuffled and dealt again when all are dealt, so that a short proof has them all.
FAULTS = ("kill", "kill", "kill", "delete", "node", "pause", "nothing")
# No agent renews the reports of these nodes.
UNRENEWED = CONFIGURATION | {"inventory": {"staleAfter": "12h", "missingAfter": "24h"}}


@pytest.fixture
def fault(tmp_path: Path) -> Path:
    return tmp_path / "fault"


@pytest.fixture
def gangs(tmp_path: Path, fault: Path) -> Iterator[Gangs]:
    ours = ("-m", "tests.e2e.gangs.faulty_gangs", fault)
    with running_cluster(tmp_path, ours=ours) as cluster:
        gangs = Gangs(installed(cluster, tmp_path / "overlay", UNRENEWED))
        yield gangs
        gangs.close()


def planned(rng: random.Random) -> list[Planned]:
    found = []
    for number in range(GANGS):
        gpus = rng.choice((1, 1, 1, 2, 4))
        size = rng.randint(2, 16 if gpus == 1 else 8)
        late_s = rng.choice((0.0, 0.0, 0.0, 3.0))
        important = rng.random() < 0.1
        found.append(Planned(f"g{number}", size, gpus, rng.uniform(3.0, 8.0), important, late_s))
    rng.shuffle(found)
    return found


def test_gangs(gangs: Gangs, fault: Path) -> None:
    rng = random.Random(SEED)
    plans = planned(rng)
    asked = sum(each.size * each.gpus for each in plans[:AT_ONCE])
    count = max(4, round(asked * 2 / 3 / GPUS))
    capacity = {gangs.add_whole(f"n{number}", GPUS): GPUS for number in range(count)}
    gangs.publish()
    up = [True]

    def is_up() -> bool:
        return up[0] and all(pod.ready for pod in gangs.installation.pods())

    watch = GangWatch(gangs.api, f"/api/v1/namespaces/{gangs.namespace}/pods", capacity, is_up)
    watch.start()
    owner = Owner(gangs, watch, plans, AT_ONCE, SEED)
    kills = itertools.cycle(KILLS)
    # A short proof may end before chance chose a kill.
    arm(fault, next(kills), 1)
    owner.start()
    began = time.monotonic()
    deck: list[str] = []
    while owner.is_alive() and time.monotonic() < began + LONGEST_S and not watch.problems:
        time.sleep(rng.uniform(1.0, 2.5))
        deck = deck or rng.sample(FAULTS, len(FAULTS))
        what = deck.pop()
        if what == "kill":
            # One that has not happened yet is replaced: there may be no evictions.
            arm(fault, next(kills), rng.randint(1, 4))
        elif what == "delete" and (names := watch.bound_names()):
            gangs.delete(rng.choice(names))
        elif what == "node":
            replace_node(gangs, watch, rng.choice(sorted(watch.capacity)))
        elif what == "pause":
            up[0] = False
            with gangs.installation.plane.paused_apiserver():
                time.sleep(rng.uniform(1.0, 4.0))
            time.sleep(1.0)
            up[0] = True
    restarts = sum(pod.containers["extender"].restarts for pod in gangs.installation.pods())
    owner.stopping.set()
    owner.join(30)
    watch.stop()
    accounts = watch.accounts
    assert watch.problems == []
    assert restarts > 0
    assert {each.name for each in owner.left} == set(), owner.errors[-3:]
    late = {name: round(each.longest_partial_s, 1) for name, each in accounts.items()}
    assert {n: s for n, s in late.items() if s > DEADLINE_S + EVICTED_S} == {}
    slow = {name: round(each.longest_fits_s, 1) for name, each in accounts.items()}
    assert {name: seconds for name, seconds in slow.items() if seconds > STARTS_S} == {}


def replace_node(gangs: Gangs, watch: GangWatch, name: str) -> None:
    """A node dies with its pods, and another one comes."""
    pods = watch.on(name)
    watch.capacity.pop(name)
    gangs.remove_node(name)
    gangs.delete(*pods)
    new = gangs.add_whole(f"r{time.monotonic_ns() % 10**9}", GPUS)
    gangs.write_reports()
    eventually(lambda: not taints(gangs, new), "the node is ready")
    watch.capacity[new] = GPUS


def taints(gangs: Gangs, node: str) -> list[str]:
    """The taints of a node beside that of GPUs."""
    spec = gangs.api.get(f"/api/v1/nodes/{node}")["spec"]
    return [each["key"] for each in spec.get("taints") or () if each["key"] != TAINT["key"]]
