"""That the checks of a written status have teeth: one wrong field each, in one that is otherwise taken."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from tests.agent.crd_rules import refusals
from tests.agent.gpunode_reports import reader_refusal
from tests.agent.odd_reports import statuses
from tests.examples import examples
from tests.kube_objects import Json
from tests.wire.reports.gpunode_status import FULL, changed

DEVICE = "devices[0]"
MIG = f"{DEVICE}.mig"


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
def test_a_status_with_one_wrong_value_is_refused(path: tuple[str | int, ...], value: Any) -> None:
    status = copy.deepcopy(FULL)
    place: Any = status
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    assert refusals(status)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        pytest.param(changed(f"{DEVICE}.holders[0].memoryMiB", 81921), "a holder uses", id="a holder"),
        pytest.param(
            changed(f"{MIG}.instances[1].holder.memoryMiB", 81921),
            "the holder of an",
            id="an instance's holder",
        ),
        pytest.param(changed(f"{MIG}.enabled", False), "MIG mode is off", id="instances where MIG is off"),
        pytest.param(changed(f"{MIG}.instances[0].uuid", "GPU-0"), "pattern", id="an instance as its GPU"),
        pytest.param(changed(f"{DEVICE}.uuid", "MIG-a"), "begins with MIG-", id="a GPU as its instance"),
        pytest.param(
            FULL | {"devices": [FULL["devices"][0], FULL["devices"][0] | {"uuid": "GPU-1", "index": 1}]},
            "instances of two GPUs",
            id="one instance on two GPUs",
        ),
    ],
)
def test_fields_that_the_reader_refuses_are_refused_by_the_api_server(wrong: Json, said: str) -> None:
    assert [refusal for refusal in refusals(wrong) if said in refusal]
    assert reader_refusal(wrong) or "begins with MIG-" in said


def test_the_reader_takes_whatever_the_api_server_takes() -> None:
    """The stored report of a node is its last good one, so an extender that starts finds it."""
    verdicts: Counter[tuple[bool, bool]] = Counter()

    @examples(100, long=2000)
    @given(statuses())
    def taken(status: Json) -> None:
        by_reader, by_server = reader_refusal(status), refusals(status)
        assert by_server or not by_reader, by_reader
        verdicts[bool(by_reader), bool(by_server)] += 1

    taken()
    # Not a law about nothing: many of either kind were drawn.
    assert min(verdicts[False, False], verdicts[True, True]) > 40, verdicts
