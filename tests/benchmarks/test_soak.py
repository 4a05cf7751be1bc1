"""The soak distinguishes growth from noise."""

from __future__ import annotations

import math
import random

import pytest

from benchmarks.soak import Growth

MINUTES = 15.0
SAMPLES = 3600


def noisy(mib_per_minute: float, noise: float) -> list[float]:
    """Samples whose noise is alike from one to the next, as that of memory is."""
    rng = random.Random(1)
    level, samples = 0.0, []
    for number in range(SAMPLES):
        level = 0.99 * level + rng.gauss(0, noise)
        samples.append(150 + mib_per_minute * MINUTES * number / SAMPLES + level)
    return samples


@pytest.mark.parametrize(
    ("samples", "flat"),
    [
        pytest.param(noisy(0, 0.1), True, id="nothing but noise"),
        pytest.param([150.0] * SAMPLES, True, id="constant memory"),
        pytest.param([150.0 + 20 * (n % 12 == 0) for n in range(SAMPLES)], True, id="a peak at each reload"),
        pytest.param([150 - n / 100 for n in range(SAMPLES)], True, id="less and less"),
        pytest.param(noisy(0.5, 0.1), False, id="half a megabyte a minute"),
        pytest.param(noisy(8, 2), False, id="eight megabytes a minute among much noise"),
        pytest.param([150 + 5 * math.log1p(n) for n in range(SAMPLES)], False, id="ever more slowly"),
    ],
)
def test_growth_is_distinguished_from_noise(samples: list[float], flat: bool) -> None:
    assert Growth.of(samples, MINUTES).flat is flat
