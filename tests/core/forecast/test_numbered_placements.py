"""MIG instances go where future instances lose the least: the best node, and its explanation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.forecast.mig_value import NumberedPlacements
from scheduler_ext.core.gpu.gpu import Holder, Mig
from scheduler_ext.core.node.node import InstancePlacements, NodeInfo
from scheduler_ext.core.request.pod_kinds import UNKNOWN, TaskClass, Workload
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import Table
from tests.core.asked import mig
from tests.core.gpu.test_mig_profile_oracle import known
from tests.core.reported import ONE_G, device, node, sliced
from tests.mig_oracle import loss_of
from tests.strategies import resolved, snapshot_of

SOMEONE = Holder(uid="someone")
MIG_ALONE = SchedulingPolicy(weights={"mig": 1.0})
A100 = known("A100-80GB")


def pods_of(*profiles: str) -> Workload:
    return Workload.of({TaskClass(mig=((profile, 1),)): 1.0 for profile in profiles})


def mixed(name: str, *migs: Mig) -> NodeInfo:
    """A node of MIG GPUs, on which pods get instances by profile."""
    devices = [device(i, mig=each) for i, each in enumerate(migs)]
    return replace(node(*devices, report={"mig_strategy": "mixed"}), name=name)


# Room beside a 1g that breaks a half already, and room in the only whole half.
SPOILT = sliced(("1g.10gb", 0), ("1g.10gb", 1), holders={0: SOMEONE})
EMPTY = sliced(("1g.10gb", 0))
FULL = sliced(*(("1g.10gb", start) for start in range(7)), holders=dict.fromkeys(range(6), SOMEONE))
LAST_HALF = sliced(("2g.20gb", 0), ("2g.20gb", 2), ("1g.10gb", 6), holders={0: SOMEONE, 2: SOMEONE})


def test_an_instance_goes_to_the_node_with_the_least_loss() -> None:
    """The device plugin picks one of a node's instances, so the mean over its choices counts."""
    high, either = sliced(("3g.40gb", 4)), sliced(("3g.40gb", 0), ("3g.40gb", 4))
    nodes = [mixed("either", either), mixed("high", high)]
    snapshot = snapshot_of(nodes, workload=pods_of("4g.40gb"))
    totals = filter_nodes(mig("3g.40gb"), snapshot, MIG_ALONE).totals
    assert totals[snapshot.state_at("high")] > totals[snapshot.state_at("either")]


def test_a_new_forecast_and_new_places_are_followed() -> None:
    table = Table(resolved([mixed("a", SPOILT)]))
    for workload, now in ((pods_of("3g.40gb"), LAST_HALF), (pods_of("1g.10gb"), FULL), (UNKNOWN, EMPTY)):
        table.forecast = Forecast(workload, ())
        earlier = table.snapshot(1)
        assert earlier.mig_loss(ONE_G).any()
        table.update(resolved([mixed("b", now)]))
        snapshot = table.snapshot(2)
        for name in ("a", "b"):
            state = snapshot.state_of[snapshot.rows([name])[0]]
            unit = next(unit for unit in snapshot.states[state].slots[0].units if unit.resource == ONE_G)
            assert snapshot.mig_loss(ONE_G)[state] == pytest.approx(loss_of(unit.mig_placements, workload))


def test_a_resource_that_no_node_offers_costs_nothing() -> None:
    assert not snapshot_of([mixed("a", SPOILT)]).mig_loss("nvidia.com/mig-7g.80gb").any()


def test_a_place_keeps_its_number_and_none_is_free() -> None:
    rooms = NumberedPlacements()
    places = [InstancePlacements(A100, held, held.bit_count(), "1g.10gb", (6,)) for held in (0, 1, 2, 0)]
    assert [rooms.number(place) for place in places] == [1, 2, 3, 1]
    assert rooms.number(None) == 0
    losses = rooms.losses(UNKNOWN)
    assert losses[0] == 0
    assert rooms.losses(UNKNOWN) is losses
    assert (losses[1:] > 0).all()
    assert not np.array_equal(rooms.losses(pods_of("3g.40gb")), losses)


def test_more_instances_than_a_gpu_can_hold_count_as_many_as_it_can() -> None:
    many = sliced(*(("1g.10gb", 0) for _ in range(9)), ("1g.10gb", 6), holders={0: SOMEONE})
    info = mixed("a", many)
    assert sum(each.holder is not None for each in many.instances) > A100.grid
    assert 0 < loss_of_a(snapshot_of([info])) < 1


def test_places_that_no_node_has_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_ext.core.snapshot.table._SPARE_ROOMS", 4)
    table = Table(resolved([mixed("a", SPOILT)]))
    sizes = set()
    for held in range(2**6):
        holders = {start: SOMEONE for start in range(6) if held >> start & 1}
        seven = sliced(*(("1g.10gb", start) for start in range(7)), holders=holders)
        table.update(resolved([mixed("a", seven)]))
        snapshot = table.snapshot(1)
        assert snapshot.mig_loss(ONE_G).any()
        sizes.add(len(snapshot.numbered_placements))
    assert max(sizes) <= 12


def loss_of_a(snapshot: Snapshot) -> float:
    """The cost of an instance on node a."""
    return float(snapshot.mig_loss(ONE_G)[snapshot.state_of[snapshot.rows(["a"])[0]]])


def test_the_loss_of_a_place_outlives_the_numbers() -> None:
    table = Table(resolved([mixed("a", SPOILT)]), spare=0)
    table.forecast = Forecast(pods_of("3g.40gb"), ())
    before = loss_of_a(table.snapshot(1))
    # More states than there is room for: all columns and numbers are rebuilt.
    table.update(resolved([mixed(str(i), each) for i, each in enumerate((LAST_HALF, FULL, EMPTY))]))
    assert loss_of_a(table.snapshot(2)) == before != 0


def test_a_snapshot_that_is_held_keeps_its_losses() -> None:
    table = Table(resolved([mixed("a", SPOILT)]), forecast=Forecast(pods_of("1g.10gb"), ()))
    looked_at, held = table.snapshot(7), table.snapshot(7)
    before = loss_of_a(looked_at)
    table.forecast = Forecast(pods_of("3g.40gb"), ())
    later = table.snapshot(8)
    assert loss_of_a(later) != before
    # Neither the new forecast nor a look at a later snapshot changes a published one.
    assert loss_of_a(held) == before
    table.update(resolved([mixed("b", LAST_HALF)]))
    assert loss_of_a(replace(later)) == loss_of_a(later) == loss_of_a(table.snapshot(9))
    assert loss_of_a(replace(held)) == before
