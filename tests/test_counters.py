"""Counters that classes declare."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scheduler_ext.counters import Counter
from scheduler_ext.extender.extender import Extender
from scheduler_ext.server.metrics.registry import Metrics
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.wire.config import Configuration


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counter, "declared", [])


def test_objects_count_apart_and_a_scrape_shows_the_sum(declared: None) -> None:
    class Door:
        passes = Counter("passes", "Passes.", ("way",), ("in", "out"))

    first, second = Door(), Door()
    first.passes.inc("in")
    second.passes.inc("in")
    second.passes.inc("back")
    assert first.passes == {"in": 1}
    (counter,) = Counter.declared
    assert counter.total() == {"in": 2, "out": 0, "back": 1}
    del first
    assert counter.total()["in"] == 1


def test_labels_and_zeros(declared: None) -> None:
    class Door:
        opened = Counter("opened", "Openings.")
        rings = Counter("rings", "Rings.", ("floor", "side"))

    door = Door()
    assert [counter.total() for counter in Counter.declared] == [{(): 0}, {}]
    door.opened.inc()
    door.rings.inc("1", "left", by=0)
    assert [counter.total() for counter in Counter.declared] == [{(): 1}, {("1", "left"): 0}]


def test_an_inventory_file_shows_the_counters_of_a_cluster_with_zeros(tmp_path: Path) -> None:
    extender = Extender(Configuration())
    source = InventorySource(tmp_path / "none", extender, Configuration().resource_names())
    text = b"".join(Metrics(source, Configuration()).render()).decode()
    found = {family.name: family.samples for family in text_string_to_metric_families(text)}
    for name, zeros in (
        ("events", 4),
        ("nudges", 1),
        ("nudge_failures", 3),
        ("advertise_writes", 1),
        ("advertise_failures", 1),
        ("connections_cut", 6),
    ):
        assert len(found[f"gpu_extender_{name}"]) >= zeros, name
    assert {"bind", "bind_conflicts", "reports_refused", "watch_restarts"} <= {
        name.removeprefix("gpu_extender_") for name in found
    }
