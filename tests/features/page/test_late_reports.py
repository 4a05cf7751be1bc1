"""When late reports are many: a few late nodes of a cluster are no news for everybody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.features.page.late_reports import late_reports
from tests.kube_objects import gpu, gpu_node, node
from tests.strategies import snapshot_of
from tests.views.seen import info_of


def cluster(fresh: int, stale: int, missing: int) -> Snapshot:
    """Nodes with these reports, and one without GPUs."""
    freshness = ["Fresh"] * fresh + ["Stale"] * stale + ["Missing"] * missing
    one = info_of(gpu_node("n", [gpu(0)]))
    late = [replace(one, name=f"n{number:02}", freshness=each) for number, each in enumerate(freshness)]
    return snapshot_of([*late, info_of(node("cpu", {"cpu": "4"}))])


@pytest.mark.parametrize(
    ("fresh", "stale", "missing", "late"),
    [
        pytest.param(40, 0, 0, None, id="all well"),
        pytest.param(4, 1, 1, None, id="two are few, however small the cluster"),
        pytest.param(60, 0, 3, None, id="one in twenty is not many"),
        pytest.param(56, 1, 3, 4, id="more are"),
        pytest.param(0, 2, 0, 2, id="all nodes"),
    ],
)
def test_many_or_all(fresh: int, stale: int, missing: int, late: int | None) -> None:
    found = late_reports(cluster(fresh, stale, missing), {})
    assert (found and found.late) == late
    if found is not None:
        assert (found.nodes, found.all) == (fresh + stale + missing, fresh == 0)


def test_the_text_names_some_nodes_and_counts_the_rest() -> None:
    found = late_reports(cluster(0, 3, 2), {"n01": 400.0, "n02": 250.0})
    assert found is not None
    assert found.text == (
        "5 of 5 nodes with GPUs have no fresh report (3 stale, 2 missing): n00, n01, n02 and 2 more"
    )
    assert found.age_s == 250.0, "since the last of them reported"
    never = late_reports(cluster(0, 3, 2), {})
    assert never is not None
    assert never.age_s is None
