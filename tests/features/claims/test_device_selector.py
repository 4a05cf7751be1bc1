"""Selectors of devices: CEL expressions, evaluated as kube-scheduler does."""

from __future__ import annotations

import pytest

from scheduler_ext.core.dra.published import DeviceFacts
from scheduler_ext.core.dra.semantic_version import parse_version
from scheduler_ext.features.claims.cel.device_expression import Outcome
from scheduler_ext.features.claims.cel.device_selector import DeviceSelector

GPU = "device.attributes['gpu.nvidia.com']"
H100 = DeviceFacts("gpu.nvidia.com", {"type": "gpu", "driverVersion": parse_version("580.1.2")}, {})


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        pytest.param([], Outcome.ADMITS, id="no expression admits every device"),
        pytest.param(
            [f"{GPU}.type == 'mig'", f"{GPU}.profile == '1g.10gb'"],
            Outcome.REJECTS,
            id="an expression after one that rejects does not matter",
        ),
        pytest.param(
            [f"{GPU}.profile == '1g.10gb'", f"{GPU}.type == 'mig'"],
            Outcome.FAILS,
            id="an expression that fails ends the evaluation",
        ),
        pytest.param(
            [f"{GPU}.type == 'mig'", "'a'.find('a') == 'a'"],
            Outcome.REJECTS,
            id="an unsupported expression does not matter after one that rejects",
        ),
        pytest.param(
            [f"{GPU}.type == 'gpu'", "'a'.find('a') == 'a'"],
            Outcome.UNKNOWN,
            id="an unsupported expression makes the answer unknown",
        ),
        pytest.param(
            [f"{GPU}.driverVersion == '580.1.2'"],
            Outcome.UNKNOWN,
            id="a version that is compared with a string is unknown",
        ),
    ],
)
def test_the_outcome_is_that_of_kube_scheduler(expressions: list[str], expected: Outcome) -> None:
    assert DeviceSelector(expressions).answer(H100).outcome is expected


def test_admits_is_none_only_where_the_answer_is_unknown() -> None:
    given = ["true", "false", f"{GPU}.profile == ''", "'a'.find('a') == 'a'"]
    assert [DeviceSelector([each]).admits(H100) for each in given] == [True, False, False, None]
