"""The demo's past: real decisions on a simulated clock, which end in the state of the sample."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scheduler_ext.features.page.demo_past import PAST_S, past_samples
from scheduler_ext.features.page.history import EVERY_S, Sample, sample
from scheduler_ext.sources.clusterstate import ClusterState, state_of
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_objects, read_pods
from tests.pages import SAMPLE, SAMPLE_PODS

CONFIG = Configuration()
NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def state() -> ClusterState:
    return state_of(read_objects(SAMPLE.read_bytes()), "the sample", CONFIG.resource_names())


@pytest.fixture(scope="module")
def samples(state: ClusterState) -> list[Sample]:
    return past_samples(state, read_pods(SAMPLE_PODS.read_bytes()), CONFIG, NOW)


def test_a_sample_for_every_interval_until_now(samples: list[Sample]) -> None:
    times = [each.at for each in samples]
    assert times == [NOW - PAST_S + EVERY_S * step for step in range(len(samples))]
    assert NOW - times[-1] == EVERY_S


def test_it_begins_and_ends_with_the_pods_of_the_sample(samples: list[Sample], state: ClusterState) -> None:
    alone = sample(state.snapshot(CONFIG.sizing()), 0, 0.0)
    for end in (samples[0], samples[-1]):
        assert (end.gpus, end.healthy, end.waiting) == (alone.gpus, alone.healthy, 0)
        assert end.held == pytest.approx(alone.held, abs=0.01)


def test_pods_come_go_and_wait(samples: list[Sample]) -> None:
    held = [each.held for each in samples]
    assert max(held) > 2 * held[0]
    assert all(each.held <= each.healthy for each in samples)
    assert max(each.waiting for each in samples) > 0
    assert any(later < earlier for earlier, later in pairwise(held)), "they leave, too"
