"""Gangs on a cluster that holds two thirds of them, with members that come late or are deleted, nodes that
die, extenders that are killed at every step, and an API server that pauses: no gang runs in part beyond its
deadline, no GPU is promised twice, and no two gangs wait for each other, so that all have their turn.

`GANGS=100` runs the whole proof."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.faulty_extender import GANG_KILLS, arm
from tests.e2e.gangs.gang_cluster import CONFIGURATION, Gangs, running_gang_cluster
from tests.e2e.gangs.gang_owner import Owner, Planned
from tests.e2e.history import Recorder, over_promised
from tests.e2e.workload import TAINT

pytestmark = pytest.mark.release

GANGS = int(os.environ.get("GANGS", "20"))
SEED = int(os.environ.get("GANGS_SEED", "3"))
AT_ONCE = 12
GPUS = 8
# From the end of the gates to the start of the last member, and until an eviction is seen.
DEADLINE_S, EVICTED_S = 20.0, 10.0
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
    ours = ("-m", "tests.e2e.faulty_extender", fault)
    with (
        running_gang_cluster(tmp_path, UNRENEWED, ours=ours) as installation,
        Gangs(installation) as gangs,
    ):
        yield gangs


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
    nodes = [gangs.add_whole(f"n{i}", GPUS) for i in range(max(4, round(asked * 2 / 3 / GPUS)))]
    gangs.publish()
    room = {f"{node}/nvidia.com/gpu": GPUS for node in nodes}
    paused = threading.Event()

    def is_up() -> bool:
        return not paused.is_set() and all(pod.ready for pod in gangs.installation.pods())

    owner = Owner(gangs, plans, AT_ONCE, is_up)
    kills = itertools.cycle(GANG_KILLS)
    # A short proof may end before chance chose a kill.
    arm(fault, next(kills), 1)
    deck: list[str] = []
    with Recorder(gangs.api, gangs.namespace) as recorder:
        owner.start()
        began = time.monotonic()
        while owner.is_alive() and time.monotonic() < began + LONGEST_S:
            time.sleep(rng.uniform(1.0, 2.5))
            deck = deck or rng.sample(FAULTS, len(FAULTS))
            what = deck.pop()
            bound = on_nodes(gangs)
            if what == "kill":
                # One that has not happened yet is replaced: there may be no evictions.
                arm(fault, next(kills), rng.randint(1, 4))
            elif what == "delete" and bound:
                gangs.delete(rng.choice(sorted(bound)))
            elif what == "node":
                dies = nodes.pop(rng.randrange(len(nodes)))
                nodes.append(replaced(gangs, dies))
                room[f"{nodes[-1]}/nvidia.com/gpu"] = GPUS
            elif what == "pause":
                paused.set()
                with gangs.installation.plane.paused_apiserver():
                    time.sleep(rng.uniform(1.0, 4.0))
                time.sleep(1.0)
                paused.clear()
        owner.stopping.set()
        owner.join(30)
    restarts = sum(pod.containers["extender"].restarts for pod in gangs.installation.pods())
    assert list(over_promised(recorder.events, room)) == []
    assert restarts > 0
    assert {each.name for each in owner.left} == set(), owner.errors[-3:]
    partial = {each.name: round(each.longest_partial_s, 1) for each in plans}
    assert {name: s for name, s in partial.items() if s > DEADLINE_S + EVICTED_S} == {}


def on_nodes(gangs: Gangs) -> dict[str, str]:
    """The nodes of all pods that are bound."""
    nodes = {name: pod["spec"].get("nodeName") for name, pod in gangs.pods().items()}
    return {name: node for name, node in nodes.items() if node}


def replaced(gangs: Gangs, node: str) -> str:
    """A node dies with its pods, and another one comes."""
    pods = [name for name, where in on_nodes(gangs).items() if where == node]
    gangs.remove_node(node)
    gangs.delete(*pods)
    new = gangs.add_whole(f"r{time.monotonic_ns() % 10**9}", GPUS)
    gangs.write_reports()

    def is_ready() -> bool:
        taints = gangs.api.get(f"/api/v1/nodes/{new}")["spec"].get("taints") or ()
        return {each["key"] for each in taints} <= {TAINT["key"]}

    eventually(is_ready, "the node is ready")
    return new
