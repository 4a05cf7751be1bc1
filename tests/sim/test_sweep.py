"""Many runs side by side: none is lost, and an absent cluster of machines is reported soon."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import Any

import joblib
import pytest

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.sweep import run_all


def identity(value: Any) -> Any:
    return value


def test_results_come_in_the_order_of_the_tasks_whatever_they_are() -> None:
    tasks = [partial(identity, value) for value in (3, None, 1)]
    assert run_all(tasks) == [3, None, 1]


def test_a_run_that_never_comes_back_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful:
        def __init__(self, **settings: Any) -> None: ...

        def __call__(self, calls: Any) -> Any:
            return (None for number, _ in enumerate(calls) if number)

    monkeypatch.setattr(joblib, "Parallel", Forgetful)
    with pytest.raises(SimulationError, match="backend loky: 1 of 3 runs never came back"):
        run_all([partial(identity, 1)] * 3)


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        pytest.param(OSError("Timed out trying to connect"), "Timed out", id="no answer"),
        pytest.param(MemoryError(), "answers, but not as a Dask scheduler", id="another protocol answers"),
    ],
)
def test_a_dask_scheduler_has_ten_seconds_to_answer(
    monkeypatch: pytest.MonkeyPatch, problem: Exception, told: str
) -> None:
    asked: dict[str, Any] = {}

    def client(address: str, timeout: float | None = None) -> None:
        asked.update(address=address, timeout=timeout)
        raise problem

    distributed = ModuleType("distributed")
    distributed.Client = client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "distributed", distributed)
    with pytest.raises(SimulationError, match=f"scheduler tcp://x:1: {told}"):
        run_all([partial(identity, 1)], backend="dask", scheduler="tcp://x:1")
    assert asked == {"address": "tcp://x:1", "timeout": 10}
