"""The rows of the page: their content for a node, and changes that add up to the whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.gpu.readings import Readings
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.features.page.overview import Change, OverviewRows, node_row
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire.config import Configuration
from tests.core.reported import NAMES
from tests.dra_objects import device_class, gpu_device, resource_claim, resource_slice
from tests.kube_objects import GFD_H100, SHARE, Json, gpu, gpu_node, holder, node, pod
from tests.strategies import clusters, resolved
from tests.views.seen import nodes_of, state

WHOLE = "nvidia.com/gpu"


def row_of(*objects: Json) -> list[Any]:
    (node,) = nodes_of(*objects).values()
    row = node_row(node, NAMES, 10)
    assert row is not None
    return row


def test_all_that_is_said_of_a_node() -> None:
    memory = {"totalMiB": 81920, "reservedMiB": 620, "usedMiB": 5000, "unaccountedMiB": 100}
    labels = {"karpenter.sh/nodepool": "gpu", "karpenter.sh/capacity-type": "spot"}
    devices = [gpu(0, memory=memory, holders=[holder("train", "research")]), gpu(1, total=40960, model="T4")]
    assert row_of(gpu_node("n", devices), node("n", {WHOLE: "2"}, labels=labels)) == [
        "n",
        "gpu",
        "whole",
        "Fresh",
        ["spot"],
        ["research"],
        [],
        [
            ["A100-80GB", 81920, [[0, 620, 81300, 5000, 100, 0, 1.0]]],
            ["T4", 40960, [[1, 0, 0, 0, None, 40960, 0.0]]],
        ],
    ]


def test_gpus_that_claims_hold_are_marked() -> None:
    slices = resource_slice("n", [gpu_device(0), gpu_device(1), gpu_device(2)])
    spare = resource_claim("spare", on="n", devices=["gpu-1"])
    spare["status"]["reservedFor"] = []
    train = resource_claim("weights", on="n", devices=["gpu-0"], pod="train")
    held = holder("train", uid="uid-train")
    report = gpu_node("n", [gpu(0, holders=[held]), gpu(1), gpu(2)])
    row = row_of(node("n", {}), device_class(), slices, report, train, spare)
    ((_, _, devices),) = row[7]
    assert [device[7] if len(device) > 7 else {} for device in devices] == [
        {"claimed": True},
        {"claimed": True},
        {},
    ]
    assert row[5] == ["default"]


def rows_of(rows: OverviewRows, version: int) -> dict[str, Any]:
    return {row[0]: row for row in map(json.loads, rows.since(version).rows)}


def test_what_gpus_did_is_there_if_a_report_has_it() -> None:
    idle = gpu(0, utilizationPercent=0, idleSeconds=600)
    hot = gpu(1, utilizationPercent=93, temperatureCelsius=71, powerWatts=650)
    other = gpu_node("other", [gpu(0, "GPU-o")])
    there = state(gpu_node("n", [idle, hot, gpu(2)]), other)
    nodes, rows = resolved([*there.infos.values()]), OverviewRows(NAMES, 10)
    rows.update(build_snapshot(nodes, 1), there.readings)
    first = rows_of(rows, 0)
    assert first["n"][8] == [[0, 0, None, None, 600], [1, 93, 71, 650, None]]
    assert first["other"][8] == []
    # A new report of one node, in which nothing else is new.
    later = (Readings("GPU-o", 40), Readings("GPU-gone", 1))
    rows.update(build_snapshot(nodes, 1), {**there.readings, "other": later})
    changed = rows_of(rows, 1)
    assert changed["other"] == [*first["other"][:8], [[0, 40, None, None, None]]]
    assert changed.get("n", first["n"]) == first["n"]


def test_idle_gpus_are_marked() -> None:
    """Also if only the mark is new: a pod that ran for long enough changes no report."""
    there = state(gpu_node("n", [gpu(0, idleSeconds=600), gpu(1)]))
    nodes, rows, readings = resolved([*there.infos.values()]), OverviewRows(NAMES, 10), there.readings
    rows.update(build_snapshot(nodes, 1), readings)
    assert rows_of(rows, 0)["n"][8] == [[0, None, None, None, 600]]
    rows.update(build_snapshot(nodes, 1), readings, {"n": frozenset({"GPU-0", "GPU-1"})})
    marked = [[0, None, None, None, 600, True], [1, None, None, None, None, True]]
    assert rows_of(rows, 1)["n"][8] == marked
    rows.update(build_snapshot(nodes, 1), readings, {})
    assert rows_of(rows, 2)["n"][8] == [[0, None, None, None, 600]]


SICK = {"state": "Unhealthy", "reason": "XID 79"}
HELD_MIG = {
    "enabled": True,
    "instances": [
        {"uuid": "MIG-4", "profile": "3g.40gb", "start": 4, "size": 4, "holder": holder("p")},
        {"uuid": "MIG-0", "profile": "1g.10gb", "start": 0, "size": 1},
    ],
}


@pytest.mark.parametrize(
    ("device", "special"),
    [
        pytest.param(gpu(0, health=SICK), {"sick": "XID 79"}, id="a sick one has a reason"),
        pytest.param(
            gpu(0, health={"state": "Unhealthy"}),
            {"sick": "unhealthy"},
            id="one without a reason is sick too",
        ),
        pytest.param(
            gpu(0, mig=HELD_MIG),
            {"mig": {"grid": 8, "instances": [[0, 1, "1g.10gb", False], [4, 4, "3g.40gb", True]]}},
            id="instances are in the order of their places, held or not",
        ),
    ],
)
def test_unusual_states(device: Json, special: Json) -> None:
    ((_, _, (found,)),) = row_of(gpu_node("n", [device]))[7]
    assert found[7:] == [special]


def test_a_node_for_shares_says_so() -> None:
    labels = {"gpu.scheduler-ext.io/sharing": "memory"}
    row = row_of(gpu_node("n", [gpu(0)]), node("n", {SHARE: "73728"}, labels=labels))
    assert row[2] == "shares"


def test_replicas_are_the_number_of_pods_that_may_share_a_gpu() -> None:
    sharing = {"strategy": "time-slicing", "replicas": 4}
    devices = [gpu(0, holders=[holder("a"), holder("b")])]
    row = row_of(gpu_node("n", devices, sharing=sharing))
    assert row[2] == "time-slicing"
    assert row[7][0][2][0][6:] == [0.5, {"replicas": 4}]


def test_a_node_known_by_labels_says_how_many_and_what_and_which_part_is_held() -> None:
    row = row_of(node("n", {WHOLE: "8"}, labels=GFD_H100), pod("p", {WHOLE: "2"}, on="n"))
    assert (row[2], row[6]) == ("labels", ["at least 2 GPUs held, devices unknown"])
    assert row[7] == [["H100-80GB", 81559, [[i, 0.25] for i in range(8)]]]


def test_a_gpu_that_may_be_held_shows_the_amounts_if_it_is_not() -> None:
    row = row_of(gpu_node("n", [gpu(0), gpu(1)]), pod("p", {WHOLE: "1"}, on="n"))
    assert row[6] == ["at least 1 GPU held, devices unknown"]
    maybe = {"maybe": [0, 81920, 0.0]}
    assert row[7][0][2] == [
        [0, 0, 81920, 0, None, 0, 1.0, maybe],
        [1, 0, 0, 0, None, 81920, 0.0, maybe],
    ]


def test_gpus_that_are_not_offered_say_so() -> None:
    # Either may be the one: it shows the amounts if it is not.
    maybe = {"maybe": [0, 81920, 0.0]}
    row = row_of(gpu_node("n", [gpu(0), gpu(1)]), node("n", {WHOLE: "1"}))
    assert row[7][0][2] == [
        [0, 0, 0, 0, None, 0, 0.0, maybe | {"withheld": 1.0}],
        [1, 0, 0, 0, None, 81920, 0.0, maybe | {"withheld": 0.0}],
    ]
    row = row_of(gpu_node("n", [gpu(0)]), node("n", {WHOLE: "0"}))
    assert row[7][0][2] == [[0, 0, 0, 0, None, 0, 0.0, {"withheld": 1.0}]]
    row = row_of(node("n", {WHOLE: "6"}, labels=GFD_H100))
    assert row[7] == [["H100-80GB", 81559, [[i, 0.0, 0.25] for i in range(8)]]]


@given(clusters())
def test_rows_and_the_inventory_list_say_the_same(infos: tuple[NodeInfo, ...]) -> None:
    config = Configuration()
    listed = {item["node"]: item for item in inventory_list(infos, config)["items"]}
    for info in infos:
        row = node_row(resolve(info, NAMES, 10), NAMES, 10)
        if row is None:
            assert info.name not in listed
            continue
        item = listed[info.name]
        assert row[3] == item["state"]
        last = 6 if item["source"] == "report" else 1
        mine = sorted(tuple(device[:last]) for _, _, devices in row[7] for device in devices)
        keys = ("reservedMiB", "requestedMiB", "usedMiB", "unaccountedMiB", "freeMiB")
        theirs = sorted(
            (device["index"], *(device["memory"][key] for key in keys if item["source"] == "report"))
            for device in item["devices"]
        )
        assert mine == theirs


class Reader:
    """A page that applies the changes."""

    def __init__(self) -> None:
        self.version = 0
        self.rows: dict[str, bytes] = {}

    def take(self, change: Change) -> None:
        if change.full:
            self.rows.clear()
        self.rows.update({json.loads(row)[0]: row for row in change.rows})
        for name in change.gone:
            self.rows.pop(name, None)
        self.version = change.version


names = st.sampled_from(["a", "b", "c"])
steps = st.lists(st.tuples(st.dictionaries(names, st.integers(1, 3)), st.booleans()), min_size=1, max_size=8)


@given(steps)
def test_changes_add_up_to_the_whole_however_often_a_page_asks(
    steps: list[tuple[dict[str, int], bool]],
) -> None:
    rows, reader = OverviewRows(NAMES, 10), Reader()
    for generation, (gpus, asks) in enumerate(steps, 1):
        objects = [gpu_node(name, [gpu(i) for i in range(count)]) for name, count in gpus.items()]
        rows.update(build_snapshot(nodes_of(*objects), generation))
        if asks:
            reader.take(rows.since(reader.version))
    reader.take(rows.since(reader.version))
    fresh = Reader()
    fresh.take(rows.since(0))
    assert reader.rows == fresh.rows
    assert set(fresh.rows) == set(steps[-1][0])


def test_only_changes_are_reported() -> None:
    rows = OverviewRows(NAMES, 10)
    nodes = nodes_of(*(gpu_node(name, [gpu(0)]) for name in "ab"))
    rows.update(build_snapshot(nodes, 1))
    seen = rows.since(0)
    assert (seen.full, len(seen.rows)) == (True, 2)
    rows.update(build_snapshot(nodes | nodes_of(gpu_node("b", [gpu(0, model="T4")])), 2))
    change = rows.since(seen.version)
    assert (change.full, [json.loads(row)[0] for row in change.rows], change.gone) == (False, ["b"], [])
    rows.update(build_snapshot({"a": nodes["a"]}, 3))
    change = rows.since(change.version)
    assert (change.full, change.rows, change.gone) == (False, [], ["b"])


def test_an_outdated_subscriber_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_ext.features.page.overview._MOST_GONE", 1)
    rows = OverviewRows(NAMES, 10)
    nodes = nodes_of(*(gpu_node(name, [gpu(0)]) for name in "abc"))
    rows.update(build_snapshot(nodes, 1))
    rows.update(build_snapshot({"b": nodes["b"], "c": nodes["c"]}, 2))
    rows.update(build_snapshot({"c": nodes["c"]}, 3))
    assert rows.since(1).full
    assert rows.since(2).gone == ["b"]
    assert rows.since(99).full, "a version of another process"
