"""Selectors that nobody should write, and the memory of answers."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.dra.published import DeviceFacts
from scheduler_ext.core.dra.semantic_version import SemanticVersion
from scheduler_ext.features.claims.cel import device_expression
from scheduler_ext.features.claims.cel.device_expression import read_expression
from scheduler_ext.wire.dra.device_selector import DeviceSelector
from scheduler_ext.wire.dra.plain_selector import SelectorAnswer, SelectorOutcome
from tests.wire.dra.recorded_selectors import CASES

GPU = "device.attributes['gpu.nvidia.com']"
DEVICE = DeviceFacts("gpu.nvidia.com", {"type": "gpu", "name": "a" * 64}, {"memory": "80Gi"})


def nested(before: str, inside: str, after: str, length: int = 10_240) -> str:
    times = (length - len(inside)) // (len(before) + len(after))
    return before * times + inside + after * times


def doubled(times: int) -> str:
    """An expression whose string doubles `times` times."""
    bound = "".join(f"cel.bind(s{n + 1}, s{n} + s{n}, " for n in range(times))
    return f"cel.bind(s0, 'xxxxxxxx', {bound}s{times}.size() > 1{')' * times})"


HOSTILE = [
    pytest.param("", id="no text"),
    pytest.param(nested("(", "true", ")"), id="deep parentheses"),
    pytest.param(nested("{1:", "1", "}"), id="deep maps"),
    pytest.param("1" + "+1" * 5_000 + " == 1", id="a sum of 5,000 terms"),
    pytest.param("device.driver" + ".a" * 5_000, id="a path of 5,000 steps"),
    pytest.param("true" + "?true:true" * 1_000, id="1,000 conditions"),
    pytest.param(nested("size(", "[]", ")"), id="deep calls"),
    pytest.param(doubled(14), id="a string that doubles 14 times"),
    pytest.param(doubled(25), id="a string that doubles 25 times"),
    pytest.param("'aaaa'" + ".replace('', 'bbbbbbbbbb')" * 12 + " == ''", id="replacements that grow"),
    pytest.param(nested("[1,2,3,4,5,6,7,8,9].all(x, ", "true", ")", 300), id="loops in loops"),
    pytest.param(nested("[1,2,3].map(x, ", "x", ")", 200) + " == []", id="lists of lists of lists"),
    pytest.param(f"{GPU}.name.matches('(a+)+$b')", id="a regular expression that backtracks elsewhere"),
    pytest.param(f"{GPU}.name.matches('{'(a|b)*' * 1_500}c')", id="a huge regular expression"),
    pytest.param(f"{GPU}.name.matches('((a{{100}}){{100}}){{100}}')", id="repetitions of repetitions"),
    pytest.param(f"{GPU}.name.matches('[')", id="an invalid regular expression"),
    pytest.param("'\ud800' == ''", id="half of a surrogate pair"),
    pytest.param("\x00", id="a NUL"),
    pytest.param("true" + " " * 10_240, id="a byte more than 10 KiB"),
    pytest.param("'" + "a" * 9_000, id="a string without an end"),
    pytest.param("9" * 9_000 + " == 1", id="a number of 9,000 digits"),
]


@pytest.mark.parametrize("expression", HOSTILE)
def test_a_hostile_expression_ends_and_admits_nothing(expression: str) -> None:
    """Each takes milliseconds; a backtracking or exponential evaluation would not end."""
    selector = DeviceSelector([expression])
    answer = selector.answer(DEVICE)
    assert answer.outcome is not SelectorOutcome.ADMITS or selector.problem is None
    assert selector.problem is None or ("\n" not in selector.problem and len(selector.problem) < 400)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(" " * 10_236 + "true", id="of 10 KiB"),
        pytest.param(" && ".join(["'gpu.nvidia.com' == device.driver"] * 250), id="of 250 parts"),
    ],
)
def test_a_long_expression_is_evaluated(expression: str) -> None:
    assert DeviceSelector([expression]).admits(DEVICE) is True


ATTRIBUTES: dict[str, Any] = {
    "half of a surrogate pair": "\ud800",
    "an integer of 65 bits": 2**63,
    "a float": 1.5,
    "null": None,
    "a list": ["a"],
    "a longer string than Kubernetes stores": "a" * 129,
}
CAPACITIES: list[Any] = ["80GB", "", "1e99", 5, "9" * 65]


@pytest.mark.parametrize(
    "device",
    [
        *(
            pytest.param(DeviceFacts("gpu.nvidia.com", {"odd": value, "type": "gpu"}, {}), id=name)
            for name, value in ATTRIBUTES.items()
        ),
        *(
            pytest.param(DeviceFacts("gpu.nvidia.com", {"type": "gpu"}, {"memory": text}), id=f"{text!r}")
            for text in CAPACITIES
        ),
    ],
)
def test_an_unreadable_value_is_unknown_where_it_is_read(device: DeviceFacts) -> None:
    memory = "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('1'))"
    read = memory if device.capacity else f"'x' == {GPU}.odd"
    assert DeviceSelector([read]).answer(device).outcome is SelectorOutcome.UNKNOWN
    assert DeviceSelector([f"'gpu' == {GPU}.type"]).admits(device) is True


VALUES = st.sampled_from(
    ["gpu", "mig", "", "1", 1, True, 0, False, SemanticVersion(1, 0, 0), SemanticVersion(1, 0, 0, ("rc",))]
)
NAMES = st.sampled_from(["type", "index", "driverVersion", "healthy", "dra.example.com/oneBool", "uuid"])
DEVICES = st.builds(
    DeviceFacts,
    st.sampled_from(["gpu.nvidia.com", "dra.example.com"]),
    st.dictionaries(NAMES, VALUES),
    st.dictionaries(st.just("memory"), st.sampled_from(["40Gi", "80Gi", "0.5Gi", "1500m"])),
    st.booleans(),
)


@given(st.sampled_from(CASES["expressions"]), st.lists(DEVICES, min_size=2, max_size=8))
def test_a_remembered_answer_is_that_of_an_evaluation(text: str, devices: list[DeviceFacts]) -> None:
    expression = read_expression.__wrapped__(text)  # one that remembers nothing yet
    if not isinstance(expression, str):
        evaluated = [expression.evaluate(each) for each in devices]
        assert [expression.answer(each) for each in devices] == evaluated


def test_devices_that_differ_elsewhere_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[DeviceFacts] = []
    evaluate = device_expression.DeviceExpression.evaluate

    def counting(expression: Any, device: DeviceFacts) -> SelectorAnswer:
        evaluated.append(device)
        return evaluate(expression, device)

    monkeypatch.setattr(device_expression.DeviceExpression, "evaluate", counting)
    monkeypatch.setattr(device_expression, "_remembered", {})
    devices = [
        DeviceFacts("gpu.nvidia.com", {"gpu.nvidia.com/type": "gpu", "gpu.nvidia.com/uuid": f"GPU-{n}"}, {})
        for n in range(100)
    ]
    selector = DeviceSelector(["'gpu.nvidia.com' == device.driver", f"'gpu' == {GPU}.type"])
    assert all(selector.admits(each) for each in devices)
    assert len(evaluated) == 2


def test_more_answers_than_it_remembers_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_expression, "_MAX_REMEMBERED", 512)
    selector = DeviceSelector([f"'GPU-7' == {GPU}.uuid"])
    devices = [DeviceFacts("gpu.nvidia.com", {"uuid": f"GPU-{n}"}, {}) for n in range(2_000)]
    assert [n for n, each in enumerate(devices) if selector.admits(each)] == [7]


def test_threads_get_the_same_answers() -> None:
    memory = "device.capacity['gpu.nvidia.com'].memory"
    selector = DeviceSelector([f"{memory}.isGreaterThan(quantity('500Gi')) && {GPU}.type == 'gpu'"])
    found: list[list[int]] = []

    def ask() -> None:
        given = [DeviceFacts("gpu.nvidia.com", {"type": "gpu"}, {"memory": f"{n}Gi"}) for n in range(1_000)]
        found.append([n for n, each in enumerate(given) if selector.admits(each)])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [list(range(501, 1_000))] * 4
