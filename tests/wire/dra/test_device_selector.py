"""Selectors of devices: CEL expressions, answered as kube-scheduler does."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.core.dra.published import DeviceFacts
from scheduler_ext.core.dra.semantic_version import parse_version
from scheduler_ext.feature import Feature
from scheduler_ext.wire.dra import device_selector
from scheduler_ext.wire.dra.device_selector import DeviceSelector
from scheduler_ext.wire.dra.plain_selector import SelectorOutcome

GPU = "device.attributes['gpu.nvidia.com']"
H100 = DeviceFacts("gpu.nvidia.com", {"type": "gpu", "driverVersion": parse_version("580.1.2")}, {})


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        pytest.param([], SelectorOutcome.ADMITS, id="no expression admits every device"),
        pytest.param(
            [f"{GPU}.type == 'mig'", f"{GPU}.profile == '1g.10gb'"],
            SelectorOutcome.REJECTS,
            id="an expression after one that rejects does not matter",
        ),
        pytest.param(
            [f"{GPU}.profile == '1g.10gb'", f"{GPU}.type == 'mig'"],
            SelectorOutcome.FAILS,
            id="an expression that fails ends the evaluation",
        ),
        pytest.param(
            [f"{GPU}.type == 'mig'", "'a'.find('a') == 'a'"],
            SelectorOutcome.REJECTS,
            id="an unsupported expression does not matter after one that rejects",
        ),
        pytest.param(
            [f"{GPU}.type == 'gpu'", "'a'.find('a') == 'a'"],
            SelectorOutcome.UNKNOWN,
            id="an unsupported expression makes the answer unknown",
        ),
        pytest.param(
            [f"{GPU}.driverVersion == '580.1.2'"],
            SelectorOutcome.UNKNOWN,
            id="a version that is compared with a string is unknown",
        ),
    ],
)
def test_the_outcome_is_that_of_kube_scheduler(expressions: list[str], expected: SelectorOutcome) -> None:
    assert DeviceSelector(expressions).answer(H100).outcome is expected


def test_admits_is_none_only_where_the_answer_is_unknown() -> None:
    given = [f"{GPU}.type == 'gpu'", f"{GPU}.type == 'mig'", f"{GPU}.profile == ''", "'a'.find('a') == 'a'"]
    assert [DeviceSelector([each]).admits(H100) for each in given] == [True, False, False, None]


@pytest.mark.parametrize("expression", [None, b"true", ["true"]])
def test_an_expression_that_is_no_text_is_a_problem(expression: Any) -> None:
    selector = DeviceSelector([expression])
    assert selector.problem == "selectors[0].cel.expression: it is no text: write a CEL expression"
    assert selector.admits(H100) is None


def test_more_than_32_expressions_are_a_problem() -> None:
    assert DeviceSelector(["device.driver == 'gpu.nvidia.com'"] * 32).admits(H100) is True
    assert DeviceSelector(["device.driver == 'gpu.nvidia.com'"] * 33).admits(H100) is None


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        pytest.param((), "", id="no feature evaluates CEL"),
        pytest.param(
            (Feature(name="claims", selectors="no_library"),),
            " (No module named 'no_library')",
            id="the library is missing",
        ),
    ],
)
def test_without_cel_an_expression_of_another_form_is_unknown(
    features: tuple[Feature, ...], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_selector, "installed", lambda: features)
    monkeypatch.setattr(device_selector, "_reader", device_selector._reader.__wrapped__)
    selector = DeviceSelector([f"{GPU}.type == 'gpu'", f"{GPU}.type in ['gpu']"])
    fix = "it needs CEL: pip install 'scheduler-ext[claims]'"
    assert selector.problem == f"selectors[1].cel.expression: {fix}{reason}"
    assert selector.admits(H100) is None
    assert selector.admits(DeviceFacts("gpu.nvidia.com", {"type": "mig"}, {})) is False
