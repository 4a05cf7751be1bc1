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
from tests.wire.decoded_pods import container, with_spec
from tests.wire.test_node_info import record

SIDECAR = {"restartPolicy": "Always"}


def cpu(amount: object) -> Json:
    return container(requests={"cpu": amount})


def asked(**spec: object) -> int:
    pod = with_spec(**spec)
    assert pod.spec is not None
    return pod_cpu_milli(pod.spec)


@pytest.mark.parametrize(
    ("spec", "milli"),
    [
        pytest.param({}, 0, id="nothing"),
        pytest.param({"containers": [cpu("2"), cpu("500m"), cpu(1), None]}, 3500, id="containers together"),
        pytest.param({"containers": [container(limits={"cpu": "2"})]}, 2000, id="a limit is a request"),
        pytest.param({"containers": [cpu("400u"), cpu("400u")]}, 1, id="rounded up once, not each"),
        pytest.param(
            {"containers": [cpu("1")], "initContainers": [cpu("3"), cpu("2")]},
            3000,
            id="init containers run alone, one by one",
        ),
        pytest.param(
            {"containers": [cpu("1")], "initContainers": [cpu("2") | SIDECAR, cpu("3")]},
            5000,
            id="beside the sidecars before them",
        ),
        pytest.param(
            {"containers": [cpu("1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}},
            5000,
            id="the request of the pod stands for its containers'",
        ),
        pytest.param({"containers": [cpu("many"), cpu("1")]}, 1000, id="what cannot be read is nothing"),
        pytest.param({"containers": [cpu("-4"), cpu("1")]}, 1000, id="negative CPU is ignored"),
        pytest.param({"containers": [cpu("1E")] * 3}, UNLIMITED, id="an absurd amount fits a column"),
    ],
)
def test_the_cpu_request_of_a_pod(spec: Json, milli: int) -> None:
    assert asked(**spec) == milli


amounts = st.none() | st.sampled_from(("1", "250m", "1.5", "3n", "0", "7u", "12"))


@st.composite
def containers(draw: st.DrawFn) -> Json:
    read: dict[str, Any] = {
        kind: {"cpu": amount} for kind in ("requests", "limits") if (amount := draw(amounts)) is not None
    }
    return container(**read) | ({"restartPolicy": "Always"} if draw(st.booleans()) else {})


@given(
    st.lists(containers(), max_size=3),
    st.lists(containers(), max_size=3),
    amounts,
    amounts,
)
def test_the_cpu_request_equals_that_of_kube_schedulers_filter(
    apps: list[Json], init: list[Json], overhead: str | None, of_pod: str | None
) -> None:
    pod = with_spec(
        containers=apps,
        initContainers=init,
        overhead={"cpu": overhead} if overhead else None,
        resources={"limits": {"cpu": of_pod}} if of_pod else None,
    )
    assert pod.spec is not None
    assert pod_cpu_milli(pod.spec) == math.ceil(pod_amounts(pod.spec).get("cpu", 0) * 1000)


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
