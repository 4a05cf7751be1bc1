"""Selectors of devices: CEL expressions, evaluated as kube-scheduler does."""

from __future__ import annotations

import pytest

from scheduler_ext.wire.device_selector import DeviceFacts, DeviceSelector, Outcome, parse_version

GPU = "device.attributes['gpu.nvidia.com']"
MEMORY = "device.capacity['gpu.nvidia.com'].memory"
H100 = DeviceFacts(
    "gpu.nvidia.com",
    {
        "gpu.nvidia.com/type": "gpu",
        "gpu.nvidia.com/uuid": "GPU-1",
        "gpu.nvidia.com/productName": "NVIDIA H100 80GB HBM3",
        "gpu.nvidia.com/driverVersion": parse_version("580.1.2"),
        "index": 3,
    },
    {"gpu.nvidia.com/memory": "81559Mi"},
)


def outcome(device: DeviceFacts, *expressions: str) -> Outcome:
    return DeviceSelector(expressions).answer(device).outcome


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        pytest.param([], Outcome.ADMITS, id="no expression admits every device"),
        pytest.param([f"{GPU}.profile == '1g.10gb'"], Outcome.FAILS, id="a missing attribute is an error"),
        pytest.param([f"has({GPU}.profile)"], Outcome.REJECTS, id="has() tests for an attribute"),
        pytest.param(
            ["has(device.attributes['other.example.com'].type)"],
            Outcome.REJECTS,
            id="a missing domain is an empty map",
        ),
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
    assert outcome(H100, *expressions) is expected


def test_admits_is_none_unless_the_device_is_admitted_or_rejected() -> None:
    given = ["true", "false", f"{GPU}.profile == ''", "'a'.find('a') == 'a'"]
    assert [DeviceSelector([each]).admits(H100) for each in given] == [True, False, None, None]
