"""Effective requests by the Kubernetes formula, and the missing amounts of a node."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.intree.resource_fit import Shortage, effective_requests, shortages

GI = 2**30
Amounts = Mapping[str, Fraction]


def amounts(**values: int | Fraction) -> dict[str, Fraction]:
    return {name: Fraction(value) for name, value in values.items()}


def test_pod_level_requests_replace_cpu_and_memory_but_not_devices_or_overhead() -> None:
    effective = effective_requests(
        [{"cpu": Fraction(8), "nvidia.com/gpu": Fraction(2)}],
        [],
        {"cpu": Fraction(1)},
        pod_level={"cpu": Fraction(4), "hugepages-2Mi": Fraction(GI), "nvidia.com/gpu": Fraction(9)},
    )
    assert effective == {"cpu": 5, "hugepages-2Mi": GI, "nvidia.com/gpu": 2}


requests_strategy = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.fractions(0, 100, max_denominator=1000)
)


def simulated_peak(
    containers: list[dict[str, Fraction]], init_containers: list[tuple[dict[str, Fraction], bool]]
) -> dict[str, Fraction]:
    """Start the pod step by step and record the peak of each resource."""
    running: list[dict[str, Fraction]] = []
    most: dict[str, Fraction] = {}

    def note() -> None:
        for resource in {name for container in running for name in container}:
            in_use = sum((container.get(resource, Fraction(0)) for container in running), Fraction(0))
            most[resource] = max(most.get(resource, Fraction(0)), in_use)

    for container, is_sidecar in init_containers:
        running.append(container)
        note()
        if not is_sidecar:
            running.pop()
    for container in containers:
        running.append(container)
        note()
    return most


@given(
    st.lists(requests_strategy, max_size=4),
    st.lists(st.tuples(requests_strategy, st.booleans()), max_size=5),
    requests_strategy,
)
def test_effective_requests_equal_a_step_by_step_start_of_the_pod(
    containers: list[dict[str, Fraction]],
    init_containers: list[tuple[dict[str, Fraction], bool]],
    overhead: dict[str, Fraction],
) -> None:
    expected = simulated_peak(containers, init_containers)
    for resource, amount in overhead.items():
        expected[resource] = expected.get(resource, Fraction(0)) + amount
    assert effective_requests(containers, init_containers, overhead) == expected


ROOMY = {
    "cpu": Fraction(8),
    "memory": Fraction(32 * GI),
    "ephemeral-storage": Fraction(100 * GI),
    "pods": Fraction(10),
    "nvidia.com/gpu": Fraction(8),
}


def reasons_on(
    allocatable: Amounts, requests: Amounts, requested: Amounts | None = None, pod_count: int = 0
) -> list[str]:
    found = shortages(
        requests,
        allocatable=allocatable,
        requested=requested or {},
        pod_count=pod_count,
        ignore_resources=frozenset(),
    )
    return [shortage.reason for shortage in found]


@pytest.mark.parametrize(
    ("requests", "requested", "pod_count", "reasons"),
    [
        pytest.param(amounts(cpu=8), {}, 0, [], id="exactly the existing amount"),
        pytest.param(amounts(cpu=5), amounts(cpu=4), 0, ["Insufficient cpu"], id="others hold too much cpu"),
        pytest.param(amounts(cpu=0), amounts(cpu=9), 0, [], id="zero is met on an overcommitted node"),
        pytest.param({}, {}, 9, [], id="one pod below the limit"),
        pytest.param({}, {}, 10, ["Too many pods"], id="the limit of pods reached"),
        pytest.param(amounts(storage=1, pods=1), {}, 0, [], id="names kube-scheduler does not count"),
        pytest.param(
            {
                "z.com/b": Fraction(1),
                "z.com/a": Fraction(1),
                "memory": Fraction(33 * GI),
                "cpu": Fraction(9),
            },
            {},
            10,
            [
                "Too many pods",
                "Insufficient cpu",
                "Insufficient memory",
                "Insufficient z.com/a",
                "Insufficient z.com/b",
            ],
            id="all shortages are listed, pods first, extended resources last",
        ),
    ],
)
def test_shortages(requests: Amounts, requested: Amounts, pod_count: int, reasons: list[str]) -> None:
    assert reasons_on(ROOMY, requests, requested, pod_count) == reasons


def test_a_node_without_a_limit_of_pods_takes_none() -> None:
    assert reasons_on({"cpu": Fraction(8)}, {}) == ["Too many pods"]


@pytest.mark.parametrize(
    ("resource", "needed", "free", "texts"),
    [
        pytest.param("cpu", Fraction(9), Fraction(8), ("9", "8"), id="whole cores"),
        pytest.param("cpu", Fraction(3, 2), Fraction(1, 4), ("1500m", "250m"), id="parts of a core"),
        pytest.param("memory", Fraction(4 * GI), Fraction(GI), ("4Gi", "1Gi"), id="whole gibibytes"),
        pytest.param("memory", Fraction(3 * GI, 2), Fraction(0), ("1536Mi", "0"), id="whole mebibytes"),
        pytest.param("memory", Fraction(GI + 1), Fraction(GI - 1), ("1025Mi", "1023Mi"), id="odd bytes"),
        pytest.param("nvidia.com/gpu", Fraction(9), Fraction(-1), ("9", "0"), id="an overcommitted node"),
    ],
)
def test_amounts_read_as_quantities(
    resource: str, needed: Fraction, free: Fraction, texts: tuple[str, str]
) -> None:
    shortage = Shortage(resource, needed, free, allocatable=needed)
    assert (shortage.needed_text, shortage.free_text) == texts
