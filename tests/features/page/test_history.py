"""The history: a bounded ring of samples, each the cluster at one moment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.features.page.history import History, Sample, sample
from tests.kube_objects import Json, gpu, gpu_node, holder
from tests.strategies import clusters, snapshot_of
from tests.views.seen import seen

HELD = gpu(0, holders=[holder("p")])
SICK = gpu(1, health={"state": "Unhealthy", "reason": "XID 79"})


@pytest.mark.parametrize(
    ("objects", "gpus", "healthy", "held"),
    [
        pytest.param([], 0, 0, 0, id="an empty cluster"),
        pytest.param(
            [gpu_node("n", [HELD, SICK])], 2, 1, 1, id="a sick one is there, and no part of the rest"
        ),
    ],
)
def test_the_content_of_a_sample(objects: list[Json], gpus: int, healthy: int, held: float) -> None:
    found = sample(seen(*objects), 3, 1000.04)
    assert (found.at, found.gpus, found.healthy, found.held, found.waiting) == (
        1000.0,
        gpus,
        healthy,
        held,
        3,
    )


@given(clusters())
def test_parts_never_exceed_the_whole(infos: tuple[NodeInfo, ...]) -> None:
    found = sample(snapshot_of(infos), 0, 0.0)
    assert 0 <= found.healthy <= found.gpus
    assert 0 <= found.held <= found.healthy + 0.01
    assert 0 <= found.unusable <= found.unallocated + 0.01


def moment(number: int) -> Sample:
    return Sample(float(number), 1, 1, 0.0, 1.0, 0.0, 0)


@given(st.integers(1, 8), st.lists(st.booleans(), max_size=30))
def test_a_page_hears_each_sample_once_and_in_order(most: int, asks: list[bool]) -> None:
    history, seen, heard = History(most), 0, []
    for number, ask in enumerate(asks):
        history.add(moment(number))
        if ask:
            seen, samples = history.since(seen)
            heard += [int(each.at) for each in samples]
    assert heard == sorted(set(heard))
    assert history.since(seen) == (
        len(asks),
        history.since(0)[1][-(len(asks) - seen) :] if seen < len(asks) else [],
    )
    assert len(history.since(0)[1]) == min(most, len(asks))
