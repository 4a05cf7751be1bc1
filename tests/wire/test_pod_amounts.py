"""The effective requests of pods, read once for equal pods."""

from __future__ import annotations

import json
from fractions import Fraction

import msgspec
import pytest

from scheduler_ext.wire import kube
from scheduler_ext.wire.pod import pod_amounts as amounts
from scheduler_ext.wire.pod.pod_amounts import pod_amounts


def spec(containers: int) -> kube.PodSpec:
    each = {"name": "main", "resources": {"requests": {"cpu": "250m"}}}
    return msgspec.json.decode(json.dumps({"containers": [each] * containers}), type=kube.PodSpec)


@pytest.mark.parametrize(
    ("containers", "remembered"),
    [pytest.param(2, 1, id="a usual pod"), pytest.param(1000, 0, id="a pod of a thousand containers")],
)
def test_only_usual_pods_are_remembered(containers: int, remembered: int) -> None:
    amounts._remembered_amounts.cache_clear()
    first = pod_amounts(spec(containers))
    assert first == {"cpu": Fraction(containers, 4)}
    # The caller may change the answer.
    first.clear()
    assert pod_amounts(spec(containers)) == {"cpu": Fraction(containers, 4)}
    assert amounts._remembered_amounts.cache_info().currsize == remembered
