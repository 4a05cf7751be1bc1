"""That the checks of a written status have teeth: one wrong field each, in one that is otherwise taken."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.agent.crd_rules import refusals
from tests.wire.gpunode_status import FULL


def test_a_full_status_is_taken() -> None:
    assert refusals(FULL) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("driverVersion",), "5" * 81),
        (("cudaVersion",), "12.8\n"),
        (("migStrategy",), None),
        (("unknown",), 1),
        (("devices", 0, "index"), 1024),
        (("devices", 0, "memory", "usedMiB"), 90_000),
        (("devices", 0, "memory", "unaccountedMiB"), 5001),
        (("devices", 0, "health", "state"), "Sick"),
        (("devices", 0, "uuid"), ""),
        (("devices", 0, "holders", 0, "container"), "Main"),
        (("devices", 0, "mig", "gridSize"), 7),
        (("devices", 0, "mig", "profiles", 0, "starts"), [0, 0]),
        (("devices", 0, "mig", "profiles", 0, "maxInstances"), 0),
        (("devices", 0, "mig", "profiles", 0, "name"), "3c.3g.40gb"),
        (("devices", 0, "mig", "profiles", 0, "name"), "3g.40gb"),
        (("devices", 0, "mig", "instances", 1, "start"), 3),
        (("devices", 0, "mig", "instances", 0, "size"), 3),
        (("devices", 0, "mig", "instances", 0, "uuid"), "MIG-b"),
        (("summary",), {"gpus": 2, "healthy": 0}),
        (("summary",), {"gpus": 1, "healthy": 1}),
        (("summary",), {"gpus": 1, "healthy": 0, "model": "T4"}),
        (("summary",), {"gpus": 1, "healthy": 0, "memoryUsedPercent": 7}),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_wrong_one_is_not(path: tuple[str | int, ...], value: Any) -> None:
    status = copy.deepcopy(FULL)
    place: Any = status
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    assert refusals(status)
