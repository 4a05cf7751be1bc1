"""Past inventories, forecasts and name indices are freed, and garbage between two reloads too."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.heap import settle_heap
from scheduler_ext.sources import file_source
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.wire.config import Configuration, InspectionSection
from tests.extender.preempting import infos_of
from tests.kube_objects import Json, gpu, gpu_node, inventory, names_body, node, pod

pytestmark = pytest.mark.process

WHOLE = "nvidia.com/gpu"
FOREVER = float("inf")


class Cycle:
    """Unreachable, but found by the collector only."""

    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """Restore the collector of this process, and prevent collections that would help a test by chance."""
    gc.disable()
    yield
    gc.unfreeze()
    gc.enable()


def cluster(*names: str, model: str = "A100-80GB") -> tuple[Json, ...]:
    each = ((gpu_node(name, [gpu(0, model=model)]), node(name, {WHOLE: "1"})) for name in names)
    return tuple(part for parts in each for part in parts)


def served(extender: Extender, *objects: Json) -> None:
    forecast = extender.snapshot.expected if extender.snapshot is not None else None
    extender.replace_nodes(infos_of(*objects).values(), forecast)


def asked(extender: Extender, name: str, gpus: int = 1) -> None:
    """As the server does: filter, the entry in the record, and prioritize."""
    answer = extender.filter(names_body(pod(name, {WHOLE: str(gpus)}), ["a", "b", "c"]), FOREVER)
    extender.record.answered("filter", answer)
    passed = json.loads(answer.body)["NodeNames"]
    if passed:
        extender.prioritize(names_body(pod(name, {WHOLE: str(gpus)}), passed), FOREVER)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InventorySource:
    # Other tests read inventories while the heap stays as it is.
    monkeypatch.setattr(file_source, "settle_heap", settle_heap)
    path = tmp_path / "inventory.yaml"
    path.write_bytes(inventory(*cluster("a", "b")))
    return InventorySource(path, Extender(Configuration()), ResourceNames())


def test_objects_that_became_garbage_between_two_reloads_are_freed(source: InventorySource) -> None:
    cycle = Cycle()
    alive = weakref.ref(cycle)
    source.load()
    del cycle
    source.load()
    assert alive() is None


def test_living_objects_are_not_walked_again(source: InventorySource) -> None:
    source.load()
    frozen = gc.get_freeze_count()
    assert frozen > 0
    settle_heap()
    assert gc.get_freeze_count() == pytest.approx(frozen, rel=0.1)


def test_a_past_inventory_and_its_forecast_are_not_kept() -> None:
    extender = Extender(Configuration())
    past: list[weakref.ref[object]] = []
    for model in ("T4", "L4", "A100-80GB", "H100-80GB"):
        served(extender, *cluster("a", "b", model=model))
        asked(extender, "one")
        asked(extender, "many", gpus=8)
        assert extender.snapshot is not None
        past += [weakref.ref(extender.snapshot)]
        assert len(extender.record) == 2
    gc.collect()
    assert [each() is not None for each in past] == [False, False, False, True]


def test_a_forecast_ends_with_those_that_use_it() -> None:
    extender = Extender(Configuration())
    served(extender, *cluster("a"))
    assert extender.snapshot is not None
    workload, kinds = extender.snapshot.forecast.workload, extender.snapshot.kinds
    forecast = Forecast(workload, ())
    covering = forecast.covering(kinds)
    assert forecast.covering(kinds) is covering
    past = weakref.ref(forecast), weakref.ref(covering)
    del forecast, covering
    assert [each() for each in past] == [None, None]


def test_nodes_of_the_same_names_share_their_index() -> None:
    extender = Extender(Configuration())
    served(extender, *cluster("a", "b"))
    assert extender.snapshot is not None
    first = extender.snapshot.row_of
    served(extender, *cluster("a", "b", model="T4"))
    assert extender.snapshot.row_of is first
    served(extender, *cluster("b", "a"))
    assert dict(extender.snapshot.row_of) == {"b": 0, "a": 1}


def test_a_refused_request_does_not_keep_the_names_of_nodes_that_are_gone() -> None:
    extender = Extender(Configuration(inspection=InspectionSection(decisions=0)))
    served(extender, *cluster("a", "b"))
    asked(extender, "many", gpus=8)
    assert extender.snapshot is not None
    past = weakref.ref(extender.snapshot.row_of)
    served(extender, *cluster("c"))
    gc.collect()
    assert past() is None
    served(extender, gpu_node("c", [gpu(i) for i in range(8)]), node("c", {WHOLE: "8"}))
    assert extender.refusals.nodes_to_nudge(extender.snapshot, {"c": 0.0}) == ["c"]


def test_recorded_decisions_keep_few_indices_of_names() -> None:
    """As many as the bound on bytes admits, and always those of the latest inventory."""
    extender = Extender(Configuration(inspection=InspectionSection(decision_bytes=2**16)))
    past: list[weakref.ref[object]] = []
    for number in range(12):
        served(extender, *cluster(*(f"node-{number}-{each}" for each in range(100))))
        asked(extender, f"pod-{number}")
        assert extender.record.of("default", f"pod-{number}") is not None
        assert extender.snapshot is not None
        past += [weakref.ref(extender.snapshot.row_of)]
    gc.collect()
    # A hundred names of 220 bytes each beside entries of 5 kB, in 64 KiB.
    assert sum(each() is not None for each in past) <= 4
    assert 2 <= len(extender.record) <= 4
