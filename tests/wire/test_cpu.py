"""CPU of pods and nodes in thousandths of a core: as Kubernetes counts it, and without errors."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.node.node import UNLIMITED
from scheduler_ext.wire.cpu import pod_cpu_milli
from scheduler_ext.wire.pod.pod_amounts import pod_amounts
from tests.kube_objects import Json, node
from tests.wire.decoded_pods import container, spec_of
from tests.wire.test_node_info import record


@pytest.mark.parametrize(
    ("amounts", "milli"),
    [
        pytest.param(["2", "500m", 1], 3500, id="containers together"),
        pytest.param(["400u", "400u"], 1, id="rounded up once, not each"),
        pytest.param(["many", "1"], 1000, id="what cannot be read is nothing"),
        pytest.param(["-4", "1"], 1000, id="negative CPU is ignored"),
        pytest.param(["1E"] * 3, UNLIMITED, id="an absurd amount fits a column"),
    ],
)
def test_the_cpu_request_of_a_pod(amounts: list[object], milli: int) -> None:
    containers = [None, *(container(requests={"cpu": amount}) for amount in amounts)]
    assert pod_cpu_milli(spec_of(containers=containers)) == milli


amounts = st.none() | st.sampled_from(("1", "250m", "1.5", "3n", "0", "7u", "12"))


@st.composite
def containers(draw: st.DrawFn) -> Json:
    read: dict[str, Any] = {
        kind: {"cpu": amount} for kind in ("requests", "limits") if (amount := draw(amounts)) is not None
    }
    return container(**read) | ({"restartPolicy": "Always"} if draw(st.booleans()) else {})


@given(st.lists(containers(), max_size=3), st.lists(containers(), max_size=3), amounts, amounts)
def test_the_cpu_request_equals_that_of_kube_schedulers_filter(
    apps: list[Json], init: list[Json], overhead: str | None, of_pod: str | None
) -> None:
    spec = spec_of(
        containers=apps,
        initContainers=init,
        overhead={"cpu": overhead} if overhead else None,
        resources={"limits": {"cpu": of_pod}} if of_pod else None,
    )
    assert pod_cpu_milli(spec) == math.ceil(pod_amounts(spec).get("cpu", 0) * 1000)


@pytest.mark.parametrize(
    ("amount", "milli"),
    [
        pytest.param("64", 64_000, id="cores"),
        pytest.param("3920m", 3920, id="thousandths"),
        pytest.param("1500u", 1, id="rounded down"),
        pytest.param("many", None, id="unreadable is unknown"),
        pytest.param("9E", UNLIMITED, id="absurd"),
    ],
)
def test_the_cpu_of_a_node(amount: object, milli: int | None) -> None:
    assert record(node("a", {"cpu": amount})).cpu_milli == milli
