"""The default policy fills more of small made-up clusters than FGD does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from scheduler_ext.sim.generator import GENERATED, generate_traces
from scheduler_ext.sim.protocols import run_inflation
from scheduler_ext.sim.scheduler import Settings
from tests.sim.small import SMALL

pytestmark = pytest.mark.process

SEEDS = (42, 43, 44)
# Nodes, and the seed of the generator. Small clusters differ: on the first, the default is behind at 100 per
# cent, because pods without wishes leave valuable GPUs alone.
CLUSTERS = ((40, 3), (40, 5), (80, 5))
# The mean was 0.6 at 100 and 0.4 at 130 per cent when this was written.
_LEAST_POINTS = 0.25


def test_the_default_places_more_than_fgd_on_average() -> None:
    margins = Counter[str]()
    for nodes, generator_seed in CLUSTERS:
        shapes, traces = generate_traces(nodes, generator_seed)
        same = replace(SMALL, nodes=shapes, pods=traces[GENERATED], load=1.3, settings=Settings(ties="first"))
        for seed in SEEDS:
            ours, theirs = (
                run_inflation(replace(same, policy=policy, seed=seed)).run.allocation_percent or {}
                for policy in ("default", "fgd")
            )
            margins.update({load: ours[load] - theirs[load] for load in ("100", "130")})
    assert min(margins.values()) / len(CLUSTERS) / len(SEEDS) >= _LEAST_POINTS
