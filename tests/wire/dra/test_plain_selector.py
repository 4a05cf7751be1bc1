"""Expressions of the usual form, answered without CEL."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.core.dra.published import DeviceFacts
from scheduler_ext.core.dra.semantic_version import parse_version
from scheduler_ext.wire.dra.plain_selector import SelectorOutcome, read_plain
from tests.wire.dra.recorded_selectors import ANSWERS, CASES, DEVICES

GPU = "device.attributes['gpu.nvidia.com']"


def test_no_answer_differs_from_that_of_kubernetes() -> None:
    read = {text: plain for text in CASES["expressions"] if (plain := read_plain(text)) is not None}
    answers = [
        (text, name, ANSWERS[text][name], plain.answer(device).outcome)
        for text, plain in read.items()
        for name, device in DEVICES.items()
    ]
    assert len(read) >= 10
    assert [case for case in answers if case[3].value not in (case[2], "unknown")] == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("device.driver == 'gpu.nvidia.com'", id="the driver"),
        pytest.param('device.driver == "gpu.nvidia.com"', id="the driver in double quotes"),
        pytest.param(f"{GPU}.type == 'gpu'", id="an attribute of the driver"),
        pytest.param("device.attributes[\"gpu.nvidia.com\"]['type'] == 'gpu'", id="an attribute by index"),
        pytest.param("device.attributes['pci.example.com'].root == '0'", id="an attribute of another domain"),
        pytest.param(f"{GPU}.numa == -1", id="a number"),
        pytest.param(f"{GPU}.healthy == true", id="a truth value"),
        pytest.param(f"device.driver == 'gpu.nvidia.com'&&{GPU}.numa==-1", id="two without spaces"),
        pytest.param(
            f"( device.driver == 'gpu.nvidia.com'\n\t&& ({GPU}.type == 'gpu') )\n&& {GPU}.healthy == true\n",
            id="parentheses and lines",
        ),
    ],
)
def test_an_expression_is_plain(text: str) -> None:
    attributes: dict[str, Any] = {
        "type": "gpu",
        "gpu.nvidia.com/numa": -1,
        "healthy": True,
        "pci.example.com/root": "0",
    }
    plain = read_plain(text)
    assert plain is not None
    assert plain.answer(DeviceFacts("gpu.nvidia.com", attributes, {})).outcome is SelectorOutcome.ADMITS


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="no text"),
        pytest.param("device.driver == 'a' || device.driver == 'b'", id="a choice"),
        pytest.param("device.driver == 'a' &&", id="an end after &&"),
        pytest.param("&& device.driver == 'a'", id="a start with &&"),
        pytest.param("(device.driver == 'a'", id="a parenthesis that stays open"),
        pytest.param("device.driver == 'a')", id="a parenthesis that was not open"),
        pytest.param("device.driver == 'a') && (device.driver == 'a'", id="parentheses the wrong way round"),
        pytest.param("(" * 17 + "device.driver == 'a'" + ")" * 17, id="17 levels of parentheses"),
        pytest.param("!(device.driver == 'a')", id="a negation"),
        pytest.param("device.driver != 'a'", id="an inequality"),
        pytest.param("device.driver == 'a' == true", id="a chain of equalities"),
        pytest.param("device.driver == 1", id="a driver that is a number, which does not compile"),
        pytest.param("device.driver == true", id="a driver that is true, which does not compile"),
        pytest.param("device.driver == 'a' // the driver", id="a comment"),
        pytest.param("device.driver == '''a'''", id="a text in three quotes"),
        pytest.param("device.driver == r'a'", id="a raw text"),
        pytest.param("device.driver == 'a\\n'", id="an escape in a text"),
        pytest.param("device.driver == 'é'", id="a text beyond ASCII"),
        pytest.param("device.driver == 'a\"", id="two kinds of quotes"),
        pytest.param("device.driverName == 'a'", id="an unknown field"),
        pytest.param(f"{GPU}.in == 'a'", id="a name that is none in CEL"),
        pytest.param(f"{GPU}['a/b'] == 'a'", id="a name with a domain by index"),
        pytest.param("device.attributes[device.driver].type == 'gpu'", id="a computed domain"),
        pytest.param("device.attributes['gpu.nvidia.com'].healthy", id="an attribute alone"),
        pytest.param(f"{GPU}.numa == 1.0", id="a floating-point number"),
        pytest.param(f"{GPU}.numa == 1u", id="a number without sign"),
        pytest.param(f"{GPU}.numa == 0x1", id="a hexadecimal number"),
        pytest.param(f"{GPU}.numa == 01", id="a number with a leading zero"),
        pytest.param(f"{GPU}.numa == {10**18}", id="a large number"),
        pytest.param(f"{GPU}.numa == null", id="null"),
        pytest.param(f"{GPU}.numa == true1", id="a word that starts with true"),
        pytest.param(f"{GPU}.version == semver('1.0.0')", id="a version"),
        pytest.param(f"has({GPU}.type) && {GPU}.type == 'gpu'", id="has()"),
        pytest.param("device.capacity['gpu.nvidia.com'].memory == '1'", id="a capacity"),
    ],
)
def test_an_expression_is_left_to_cel(text: str) -> None:
    assert read_plain(text) is None


@pytest.mark.parametrize(
    ("text", "attributes", "expected"),
    [
        pytest.param(f"{GPU}.type == 'gpu'", {"type": "mig"}, SelectorOutcome.REJECTS, id="another value"),
        pytest.param(
            f"{GPU}.type == '1'", {"type": 1}, SelectorOutcome.REJECTS, id="a value of another type"
        ),
        pytest.param(
            f"{GPU}.type == 1", {"type": True}, SelectorOutcome.REJECTS, id="a truth value is no number"
        ),
        pytest.param(f"{GPU}.type == 'gpu'", {}, SelectorOutcome.FAILS, id="a missing attribute"),
        pytest.param(
            f"{GPU}.a == 1 && device.driver == 'x'",
            {},
            SelectorOutcome.REJECTS,
            id="one missing, and one false after it",
        ),
        pytest.param(
            "device.attributes['x.com'].type == 'gpu'",
            {"type": "gpu"},
            SelectorOutcome.FAILS,
            id="an attribute without a domain is the driver's",
        ),
        pytest.param(f"{GPU}.type == 'gpu'", {"type": "a" * 129}, SelectorOutcome.UNKNOWN, id="a long text"),
        pytest.param(
            f"{GPU}.type == 'gpu'", {"type": "\ud800"}, SelectorOutcome.UNKNOWN, id="half of a pair"
        ),
        pytest.param(f"{GPU}.type == 1", {"type": 2**63}, SelectorOutcome.UNKNOWN, id="a number of 65 bits"),
        pytest.param(f"{GPU}.type == 1", {"type": [1]}, SelectorOutcome.UNKNOWN, id="a list"),
        pytest.param(
            f"device.driver == 'x' && {GPU}.type == '1.0.0'",
            {"type": parse_version("1.0.0")},
            SelectorOutcome.UNKNOWN,
            id="a version that is compared with a text, also beside a false part",
        ),
    ],
)
def test_a_device_gets_the_answer_of_kubernetes(
    text: str, attributes: dict[str, Any], expected: SelectorOutcome
) -> None:
    plain = read_plain(text)
    assert plain is not None
    answer = plain.answer(DeviceFacts("gpu.nvidia.com", attributes, {}))
    assert (answer.outcome, bool(answer.reason)) == (expected, expected is not SelectorOutcome.REJECTS)
