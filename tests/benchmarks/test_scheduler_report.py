"""From readings to verdicts: errors that count, ratios within rounds, and bounds."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks.scheduler.block import Block, Readings, block_of
from benchmarks.scheduler.exposition import Histogram
from benchmarks.scheduler.process import Reading
from benchmarks.scheduler.report import bound_lines, scheduler_report
from benchmarks.scheduler.summary import BOUNDS, ratios_of, rows_of

ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds"
ATTEMPTS = "scheduler_schedule_attempts_total"
POINT = "scheduler_framework_extension_point_duration_seconds"
CALLS = "gpu_extender_request_duration_seconds"


def _scheduler(bound: int, decided: int, ms_each: float = 10.0, **failed: int) -> str:
    """kube-scheduler's metrics after it decided and bound this many pods."""
    lines = [
        f'{ATTEMPTS}{{profile="gpu-scheduler",result="scheduled"}} {bound}',
        *(
            f'{ATTEMPTS}{{profile="gpu-scheduler",result="{result}"}} {count}'
            for result, count in failed.items()
        ),
        f"# TYPE {ALGORITHM} histogram",
        f'{ALGORITHM}_bucket{{le="0.016"}} {decided}',
        f'{ALGORITHM}_bucket{{le="+Inf"}} {decided}',
        f"{ALGORITHM}_sum {decided * ms_each / 1000}",
        f"{ALGORITHM}_count {decided}",
        *(
            f'{POINT}_sum{{extension_point="{point}",profile="gpu-scheduler"}} {bound * part_ms / 1000}'
            for point, part_ms in (("PreFilter", 1), ("Filter", 4), ("PreScore", 0.5), ("Score", 2))
        ),
        f"process_cpu_seconds_total {bound * 0.012}",
    ]
    return "\n".join(lines) + "\n"


def _extender(calls: Mapping[tuple[str, int], int]) -> str:
    """The extender's metrics after this many calls by verb and status, 2 ms each."""
    lines = [f"# TYPE {CALLS} histogram"]
    for (verb, code), count in calls.items():
        labels = f'code="{code}",verb="{verb}"'
        lines += [
            f'{CALLS}_bucket{{{labels},le="+Inf"}} {count}',
            f"{CALLS}_sum{{{labels}}} {count * 0.002}",
            f"{CALLS}_count{{{labels}}} {count}",
        ]
    return "\n".join(lines) + "\n"


def _block(bound: int, last: str, extender: tuple[str, str] | None = None) -> Block:
    """100 pods after 20 to warm up, in 4 s; 25 of them were bound and 30 decided at the first reading."""
    first = Reading(1.0, _scheduler(bound=25, decided=30))
    return block_of(
        "ours", 50, 0, 120, Readings(bound, (first, Reading(5.0, last)), extender, "its last words")
    )


def test_counted_values_lie_between_the_readings() -> None:
    block = _block(120, _scheduler(bound=120, decided=120, ms_each=13.0))
    assert (block.errors, block.messages) == (0, ())
    assert block.pods == 95
    assert block.pods_per_s == pytest.approx(95 / 4)
    assert block.algorithm.count == 90
    assert block.algorithm.mean_ms == pytest.approx((120 * 13 - 30 * 10) / 90)
    assert block.filter_plugins_ms == pytest.approx(5)
    assert block.score_plugins_ms == pytest.approx(2.5)
    assert block.scheduler_cpu_ms == pytest.approx(12)
    assert block.extender_ms is None


def test_pods_placed_by_the_scores_of_an_equal_pod_are_counted() -> None:
    attempts = 'scheduler_batch_attempts_total{profile="gpu-scheduler",result="%s"} %d\n'
    last = _scheduler(bound=120, decided=120) + attempts % ("hint_used", 30) + attempts % ("no_hint", 90)
    assert _block(120, last).batched == pytest.approx(0.25)
    assert _block(120, _scheduler(bound=120, decided=120)).batched == 0.0


def test_where_decisions_ran_ahead_of_bindings_all_of_them_count() -> None:
    first = Reading(1.0, _scheduler(bound=20, decided=100, ms_each=1.0))
    last = Reading(2.0, _scheduler(bound=120, decided=120, ms_each=2.0))
    block = block_of("none", 50, 0, 120, Readings(120, (first, last), None, ""))
    assert (block.pods, block.algorithm.count) == (100, 120)
    assert block.algorithm.mean_ms == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("bound", "failed", "errors", "message"),
    [
        pytest.param(
            120,
            {"unschedulable": 3},
            3,
            "3 scheduling attempts ended as unschedulable",
            id="an attempt without a node is an error even if the pod was bound in the end",
        ),
        pytest.param(
            120, {"error": 2}, 2, "2 scheduling attempts ended as error", id="a failing extender is an error"
        ),
        pytest.param(
            117,
            {},
            3,
            "3 of 120 pods were not bound; its last words",
            id="a pod that was not bound is an error",
        ),
    ],
)
def test_errors_of_the_scheduler_are_counted_and_reported(
    bound: int, failed: dict[str, int], errors: int, message: str
) -> None:
    block = _block(bound, _scheduler(bound=bound, decided=bound, **failed))
    assert (block.errors, block.messages) == (errors, (message,))


GOOD = {("filter", 200): 120, ("prioritize", 200): 120}


@pytest.mark.parametrize(
    ("calls", "messages"),
    [
        pytest.param(GOOD, [], id="one good call of each verb per pod is fine"),
        pytest.param(
            {**GOOD, ("filter", 503): 2},
            ["2 of 122 filter calls were not answered with 200"],
            id="a filter call that was refused is an error",
        ),
        pytest.param(
            {("filter", 200): 120, ("prioritize", 200): 117, ("prioritize", 500): 3},
            [
                "3 of 120 prioritize calls were not answered with 200",
                "120 pods were bound after only 117 prioritize calls",
            ],
            id="a failed prioritize call, which kube-scheduler does not report, is an error",
        ),
        pytest.param(
            {},
            [
                "120 pods were bound after only 0 filter calls",
                "120 pods were bound after only 0 prioritize calls",
            ],
            id="an extender that was never asked is an error",
        ),
    ],
)
def test_errors_of_our_extender_are_counted_and_reported(
    calls: dict[tuple[str, int], int], messages: list[str]
) -> None:
    earlier = {("filter", 200): 1000, ("prioritize", 200): 900, ("filter", 400): 7}
    later = {key: earlier.get(key, 0) + calls.get(key, 0) for key in {*earlier, *calls}}
    block = _block(120, _scheduler(120, 120), (_extender(earlier), _extender(later)))
    assert list(block.messages) == messages
    assert block.errors == len(messages)
    assert block.extender_ms == (pytest.approx(4.0) if calls else None)


def test_nothing_bound_is_no_figure_rather_than_a_wrong_one() -> None:
    readings = Readings(3, (None, Reading(40.0, _scheduler(bound=3, decided=3))), None, "its last words")
    block = block_of("none", 50, 0, 120, readings)
    assert (block.pods, block.pods_per_s, block.filter_plugins_ms, block.errors) == (0, None, None, 117)


def _measured(contender: str, number: int, ms: float, pods_per_s: float, nodes: int = 5000) -> Block:
    algorithm = Histogram(ms / 1000 * 300, 300, ((0.016, 150.0), (0.032, 300.0), (float("inf"), 300.0)))
    return Block(contender, nodes, number, 300, 300 / pods_per_s, algorithm)


# The machine is twice as slow in the second round; medians of times would compare across rounds.
BLOCKS = [
    _measured("none", 0, 20, 50),
    _measured("noop-100", 0, 20, 50),
    _measured("noop-all", 0, 30, 30),
    _measured("ours", 0, 22, 45),
    _measured("ours", 1, 48, 24),
    _measured("noop-all", 1, 60, 15),
    _measured("noop-100", 1, 40, 25),
    _measured("none", 1, 40, 25),
    _measured("none", 2, 20, 50),
    _measured("noop-100", 2, 20, 50),
    _measured("ours", 2, 21, 45),
]


def test_ratios_are_taken_within_a_round() -> None:
    found = {(r.quantity, r.contender, r.against): r.times for r in ratios_of(BLOCKS)}
    for against in ("noop-100", "none"):
        times = found["algorithm", "ours", against]
        assert [times.median, times.least, times.greatest] == pytest.approx([1.1, 1.05, 1.2])
    # The last round has no noop-all to compare with.
    times = found["podsPerSecond", "ours", "noop-all"]
    assert [times.median, times.least, times.greatest] == pytest.approx([1.55, 1.5, 1.6])
    assert ("algorithm", "none", "none") not in found


def test_ratios_never_mix_cluster_sizes() -> None:
    mixed = [_measured("ours", 0, 5, 100, nodes=100), _measured("none", 0, 20, 50, nodes=5000)]
    assert ratios_of(mixed) == []


def test_rows_sum_up_all_rounds_in_the_order_of_the_first() -> None:
    rows = rows_of(BLOCKS)
    assert [row.contender for row in rows] == ["none", "noop-100", "noop-all", "ours"]
    ours = rows[-1]
    assert (ours.rounds, ours.pods, ours.errors) == (3, 900, 0)
    assert ours.algorithm_ms is not None
    assert (ours.algorithm_ms.median, ours.algorithm_ms.least, ours.algorithm_ms.greatest) == pytest.approx(
        (22, 21, 48)
    )
    assert ours.p50_ms == pytest.approx(16)


@pytest.mark.parametrize(
    ("ours_ms", "ours_pods_per_s", "verdicts"),
    [
        pytest.param(22.0, 39.0, [True, True, True], id="on the edge all bounds hold"),
        pytest.param(22.9, 39.0, [True, True, False], id="the goal is missed before the must"),
        pytest.param(23.1, 39.0, [False, True, False], id="a slow decision misses both"),
        pytest.param(22.0, 38.9, [True, False, True], id="too few pods a second miss theirs"),
    ],
)
def test_bounds_hold_or_are_missed(ours_ms: float, ours_pods_per_s: float, verdicts: list[bool]) -> None:
    blocks = [*BLOCKS[:3], _measured("ours", 0, ours_ms, ours_pods_per_s)]
    report = scheduler_report({}, "v1", "command", blocks)
    assert [bound["holds"] for bound in report["bounds"]] == verdicts
    lines = bound_lines(ratios_of(blocks))
    assert ["MISSED" not in line for line in lines] == verdicts
    assert [line.split()[0] for line in lines] == [bound.kind for bound in BOUNDS] == ["must", "must", "goal"]
