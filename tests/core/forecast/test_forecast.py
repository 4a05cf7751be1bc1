"""The tables of what future pods can use: by hand, and class by class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.forecast.forecast import MAX_CPU_AMOUNTS, DeviceKind, EmptyNode, Forecast
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.node import UNLIMITED
from scheduler_ext.core.request.pod_kinds import UNKNOWN, TaskClass, Workload
from tests.demand_oracle import asked_of
from tests.strategies import cpu_asks, workloads

T4, A100 = canonical_model("T4"), canonical_model("A100-80GB")
BOTH = DeviceKind(T4, 1000, True)
HALF = TaskClass(shares_mib=(500,))


def forecast(counts: dict[TaskClass, float], kind: DeviceKind = BOTH) -> Forecast:
    return Forecast(Workload.of(counts), (kind,))


def test_the_unusable_part_of_a_residual_is_by_how_often_pods_come() -> None:
    tables = forecast({HALF: 3, TaskClass(gpus=1): 1})
    assert tables.unusable[0, 0, 600] == pytest.approx(0.15)


def test_how_many_whole_gpus_pods_of_several_use() -> None:
    """By what each class asks."""
    tables = forecast({TaskClass(gpus=4): 1, TaskClass(gpus=1): 4})
    assert tables.runs[0, 8] == pytest.approx(4.0)


def test_cpu_per_gpu_is_of_all_pods_and_their_requests_there() -> None:
    counts: dict[TaskClass, float] = {
        TaskClass(4000, shares_mib=(500,)): 2,
        TaskClass(1000): 2,
        TaskClass(8000, gpus=1): 1,
    }
    assert forecast(counts).cores_per_gpu[0] == pytest.approx((8 + 2 + 8) / 2)
    # Where no shares are accepted, share pods bring no CPU either.
    assert forecast(counts, DeviceKind(T4, 0, True)).cores_per_gpu[0] == pytest.approx(2 + 8)
    assert Forecast(UNKNOWN, (BOTH,)).cores_per_gpu[0] == 0


@given(
    workloads(),
    st.sampled_from([BOTH, DeviceKind(A100, 73_728, False), DeviceKind(A100, 0, True)]),
    st.one_of(cpu_asks, st.integers(0, 70_000)),
    st.integers(0, 1000),
    st.integers(0, 16),
)
def test_the_tables_agree_with_each_class_by_itself(
    workload: Workload, kind: DeviceKind, cpu_milli: int, residual: int, whole: int
) -> None:
    tables = Forecast(workload, (kind,))
    step = tables.steps(np.array([cpu_milli], np.int32))[0]
    single = several = 0.0
    for asked in asked_of(kind, workload.top(0.95)):
        able = asked.size is not None and asked.admitted and asked.cpu_milli <= cpu_milli
        if not able or (asked.gpus < 2 and residual < (asked.size or 0)):
            single += asked.weight * residual / 1000
        if able and asked.several and asked.gpus > whole:
            several += asked.weight
    shares_of_two = any(len(task.shares_mib) > 1 for task in workload.parts)
    if not shares_of_two:
        assert tables.unusable[0, step, residual] == pytest.approx(single)
        assert tables.several[0, step, whole] == pytest.approx(several)


def test_many_amounts_of_cpu_are_distinguished_as_far_as_there_is_room() -> None:
    counts: dict[TaskClass, float] = {
        TaskClass(100 * (i + 1), shares_mib=(100,)): 1 for i in range(3 * MAX_CPU_AMOUNTS)
    }
    tables = forecast(counts)
    assert len(tables.cpu_milli) == MAX_CPU_AMOUNTS
    everything = tables.steps(np.array([10**6], np.int32))[0]
    assert tables.unusable[0, everything, 100] == pytest.approx(0.0)
    assert (np.diff(tables.unusable[0, :, 100]) <= 0).all()


def test_a_kind_that_is_new_is_taken_in_beside_the_others() -> None:
    first = forecast({HALF: 1})
    more = first.covering((DeviceKind(A100, 80_000, False),))
    assert list(more.row_of) == [BOTH, DeviceKind(A100, 80_000, False)]
    assert more.covering((BOTH,)) is more
    assert (more.values[0] == first.values[0]).all()


def one(*models: str) -> TaskClass:
    return TaskClass(gpus=1, models=models)


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        pytest.param({one("T4"): 1}, (1, 0, 0), id="a pod that accepts one model wants that model"),
        pytest.param({one("A100", "T4"): 1}, (0.75, 0.25, 0), id="of several models each by its GPUs"),
        pytest.param({one(): 3, one("A100"): 1}, (0, 0.25, 0), id="as a part of all that is asked"),
    ],
)
def test_demand_for_each_model(counts: dict[TaskClass, float], wanted: tuple[float, float, float]) -> None:
    kinds = (BOTH, DeviceKind(A100, 0, True), DeviceKind(canonical_model("L4"), 0, True))
    tables = Forecast(Workload.of(counts), kinds)
    assert tables.wanted(kinds, np.array([6.0, 2.0, 2.0])) == pytest.approx(wanted)


def eight(cores: int) -> TaskClass:
    return TaskClass(cores * 1000, gpus=8)


@pytest.mark.parametrize(
    ("counts", "small", "large"),
    [
        pytest.param({eight(120): 1, one(): 792}, 0, 0.09, id="who fits on one node of ten wants that one"),
        pytest.param({eight(120): 1, one(): 8}, 0, 1, id="more than there is of it is all of it"),
        pytest.param(
            {TaskClass(60_000, gpus=4): 1, one(): 396},
            0.45 * 0.01 * 80 * 36 / 44 / 72,
            0.45 * 0.01 * 80 * 8 / 44 / 8,
            id="nodes that hold one where others hold two",
        ),
    ],
)
def test_demand_for_nodes_by_size(counts: dict[TaskClass, float], small: float, large: float) -> None:
    """Nine nodes of eight T4 and 96 cores, one of eight A100 and 128."""
    shapes = EmptyNode(BOTH, 8, 96_000), EmptyNode(DeviceKind(A100, 1000, True), 8, 128_000)
    tables = Forecast(Workload.of(counts), ())
    assert tables.hosted(shapes, np.array([9.0, 1.0])) == pytest.approx((small, large))


def test_demand_for_nodes_follows_their_number() -> None:
    shapes = EmptyNode(BOTH, 8, 96_000), EmptyNode(BOTH, 8, 128_000)
    tables = Forecast(Workload.of({eight(120): 1, one(): 792}), ())
    assert tables.hosted(shapes, np.array([9.0, 1.0]))[1] == pytest.approx(0.09)
    assert tables.hosted(shapes, np.array([5.0, 5.0]))[1] == pytest.approx(0.01)
    assert tables.hosted(shapes[1:], np.array([5.0])).tolist() == [0.0]


@pytest.mark.parametrize(
    ("counts", "shortage"),
    [
        pytest.param(
            {TaskClass(8_000, gpus=1): 1}, 0.0, id="eight of twelve cores for each GPU leave enough"
        ),
        pytest.param({TaskClass(12_000, gpus=1): 1}, 0.5, id="as many as there are is half short"),
        pytest.param({TaskClass(12_600, gpus=1): 1}, 0.75, id="between the two evenly"),
        pytest.param(
            {TaskClass(8_000, gpus=1): 1, TaskClass(12_000): 1}, 1.0, id="pods that ask only CPU count too"
        ),
        pytest.param({TaskClass(100_000): 1}, 0.0, id="unless no pod asks a GPU"),
    ],
)
def test_how_short_of_cpu_a_cluster_is(counts: dict[TaskClass, float], shortage: float) -> None:
    """Three nodes of eight GPUs and 96 cores."""
    shapes = (EmptyNode(BOTH, 8, 96_000),)
    assert forecast(counts).cpu_shortage(shapes, np.array([3.0])) == pytest.approx(shortage)


def test_cpu_without_a_known_limit_is_not_short() -> None:
    shapes = EmptyNode(BOTH, 8, 96_000), EmptyNode(BOTH, 8, UNLIMITED)
    tables = forecast({TaskClass(48_000, gpus=1): 1})
    assert tables.cpu_shortage(shapes, np.array([3.0, 1.0])) == 0.0
    assert tables.cpu_shortage((), np.zeros(0)) == 0.0
