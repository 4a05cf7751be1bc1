"""The configuration: defaults, bounds, and messages for mistakes."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
import yaml

from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.errors import ConfigError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.scores import DEFAULT_WEIGHTS
from scheduler_ext.wire.config import DURATION_BOUNDS, Configuration, check, load_config
from scheduler_ext.wire.times import duration_s, duration_text

HEADER = {"apiVersion": "config.scheduler-ext.io/v1alpha1", "kind": "ExtenderConfiguration"}


def with_key(key: str, value: Any) -> dict[str, Any]:
    """A configuration of one key, as a dotted path."""
    *parents, last = key.split(".")
    document: dict[str, Any] = dict(HEADER)
    place = document
    for parent in parents:
        place[parent] = {}
        place = place[parent]
    place[last] = value
    return document


def load(document: Any) -> Configuration:
    return load_config(yaml.safe_dump(document).encode())


def refusal_of(document: Any) -> str:
    with pytest.raises(ConfigError) as refusal:
        load(document)
    message = str(refusal.value)
    assert "\n" not in message
    return message


def test_every_knob_has_a_default() -> None:
    """The values are those of config/default.yaml."""
    config = load(HEADER)
    assert config == Configuration()
    check(config)
    assert config.policy() == Policy()
    assert config.resource_names() == ResourceNames()


@pytest.mark.parametrize(
    ("key", "accepted", "refused"),
    [
        ("filter.maxCandidates", (0, 1_000_000), (-1, 1_000_001, "100", 1.5)),
        ("memory.headroomPercent", (0, 90), (-1, 91)),
        ("inventory.staleAfter", ("1s",), ("0s", 150)),
        ("inventory.missingAfter", ("86400s",), ("25h", "150s")),
        ("idle.after", ("1s", "168h"), ("0s", "169h")),
        ("idle.reclaim.minAge", ("1s",), ("0s",)),
        ("idle.reclaim.warnFor", ("168h",), ("8d",)),
        ("idle.reclaim.mode", ("evict",), ("Evict",)),
        ("idle.reclaim.perHour", (1,), (0,)),
        ("score.weights", ({"mig": 0, "best-fit": 1000}, {}), ({"mig": "1"}, {"mig": True})),
        ("score.strategy", ("binpack", "spread"), ("random",)),
        ("score.highPriority", (1, 1_000_000_000), (0, 1_000_000_001)),
        ("resources.wholeGpu", (["example.com/gpu"],), ([],)),
        ("resources.memoryShare", ("example.com/mib",), ("mib",)),
        ("schedulerNames", (["a", "b"],), ([], "gpu-scheduler")),
        ("preemption.emptyVictims", (False,), ("no",)),
        ("bind.deadline", ("100ms", "1m"), ("99ms", "61s")),
        ("server.maxBodyBytes", (1024, 2**30), (1023, 2**30 + 1)),
        ("server.readTimeout", ("0.1s",), ("50ms",)),
        ("server.writeTimeout", ("300s",), ("301s",)),
        ("server.decisionDeadline", ("10ms",), ("5ms",)),
        ("server.gracefulTimeout", ("500ms",), ("6m", "soon")),
        ("nominate.ttl", ("5s",), ("4s",)),
        ("nominate.gangs.deadline", ("24h",), ("25h",)),
        ("nominate.gangs.onDeadline", ("hold",), ("wait",)),
        ("inspection.decisionBytes", (2**16, 2**32), (2**16 - 1, 2**32 + 1)),
        ("cost.perUnit", (1_000_000,), (0,)),
        ("cost.currency", ("€",), ("", "U\x1bSD", "USD\n")),
    ],
)
def test_every_key_has_its_bounds(key: str, accepted: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    for value in accepted:
        assert load(with_key(key, value)) is not None
    for value in refused:
        assert refusal_of(with_key(key, value)).startswith(key)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (with_key("bind.deadline", "61s"), "bind.deadline: 61s is outside 100ms to 1m"),
        (with_key("server.gracefulTimeout", "soon"), "server.gracefulTimeout: 'soon' is no duration;"),
        (with_key("idle.reclaim.mode", False), "idle.reclaim.mode: YAML reads off without quotes as false; "),
        (with_key("inventory.missingAfter", "150s"), "inventory.missingAfter: must be later than staleAfter"),
        (
            with_key("nominate", {"enabled": False, "gangs": {"enabled": True}}),
            "nominate.gangs.enabled: needs nominate.enabled: true",
        ),
        (with_key("score.weights.mig", -0.1), "score.weights.mig: -0.1 is outside 0 to 1000"),
        (with_key("score.weights.mig", 1000.1), "score.weights.mig: 1000.1 is outside 0 to 1000"),
        (with_key("filter.maxCandidate", 5), "filter.maxCandidate: unknown key"),
        # The name inside the program.
        (with_key("max_candidates", 5), "max_candidates: unknown key"),
        (
            with_key("score.weights", {"binpack": 1}),
            f"score.weights.binpack: no such score; there are {', '.join(DEFAULT_WEIGHTS)}",
        ),
        (with_key("score.weights", dict.fromkeys(DEFAULT_WEIGHTS, 0)), "score.weights: all are 0"),
        (
            with_key("resources.memoryShare", "nvidia.com/gpu"),
            "resources.memoryShare: nvidia.com/gpu is in wholeGpu too; keep one",
        ),
        (
            with_key("resources.wholeGpu", ["nvidia.com/mig-1g.10gb"]),
            "resources: nvidia.com/mig-1g.10gb is a MIG resource",
        ),
        (HEADER | {"kind": "Pod"}, "kind: 'Pod'; this release reads 'ExtenderConfiguration'"),
        (HEADER | {"filter": None}, "filter: Expected `object`, got `null`"),
        (None, "empty or no mapping; start with apiVersion:"),
        (with_key("values", {"T4": 0}), "values.T4: 0 must be above 0"),
        (with_key("values", {"T4": 2e6}), "values.T4: 2e+06 must be above 0 and at most 1,000,000"),
        (with_key("values", {"T4": "2.5"}), "values.T4: '2.5' is no number; write US dollars per hour"),
        (with_key("values", {"A;B": 1}), "values.A;B: GPU model"),
        (
            with_key("values", {"T4": 1, "Tesla-T4": 2}),
            "values.Tesla-T4: the same model as values.T4; keep one",
        ),
    ],
)
def test_mistakes_are_named_with_the_fix(document: Any, message: str) -> None:
    assert refusal_of(document).startswith(message)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("idle.reclaim.mode", "Evict", "docs/reference/configuration.md has the values"),
        ("cost.currency", "USD\n", "control characters"),
    ],
)
def test_a_value_outside_a_closed_set_is_refused_with_the_set(key: str, value: Any, problem: str) -> None:
    assert problem in refusal_of(with_key(key, value))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"\xff\xfe\xff", id="bytes that are no text"),
        pytest.param(b"a: 1\n---\nb: 2\n", id="two documents"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", id="a number that no field could hold"),
    ],
)
def test_an_unreadable_configuration_is_refused_in_one_line(text: bytes) -> None:
    expected = r"^(neither YAML nor JSON|YAML, line \d|2 documents in it|cannot be read)[^\n]+$"
    with pytest.raises(ConfigError, match=expected):
        load_config(text)


def test_anchors_and_merge_keys_are_read() -> None:
    text = """
apiVersion: config.scheduler-ext.io/v1alpha1
kind: ExtenderConfiguration
filter: {maxCandidates: &seven 7}
score:
  weights:
    <<: &low {mig: *seven}
    best-fit: *seven
"""
    config = load_config(text.encode())
    assert (config.filter.max_candidates, config.score.weights) == (7, {"mig": 7, "best-fit": 7})


def test_weights_left_out_keep_their_defaults() -> None:
    policy = load(with_key("score.weights", {"mig": 5, "spot": 0})).policy()
    assert policy.weights == DEFAULT_WEIGHTS | {"mig": 5, "spot": 0}


def test_the_knobs_reach_the_decision() -> None:
    config = load(
        HEADER
        | {
            "filter": {"maxCandidates": 7},
            "score": {"strategy": "spread", "highPriority": 5},
            "resources": {"wholeGpu": ["a.b/gpu"], "memoryShare": "a.b/mib"},
        }
    )
    policy = config.policy()
    assert (policy.max_candidates, policy.strategy, policy.high_priority) == (7, "spread", 5)
    assert config.resource_names() == ResourceNames(("a.b/gpu",), "a.b/mib")


@pytest.mark.parametrize(
    ("text", "seconds", "shown"),
    [
        ("0s", 0, "0s"),
        ("10ms", 0.01, "10ms"),
        ("150s", 150, "2m30s"),
        ("1.5s", 1.5, "1s500ms"),
        ("168h", 604_800, "168h"),
        ("1h1m1s500ms", 3661.5, "1h1m1s500ms"),
    ],
)
def test_durations(text: str, seconds: float, shown: str) -> None:
    assert duration_s("key", text, 0, 1e6) == pytest.approx(seconds)
    assert duration_text(seconds) == shown


@pytest.mark.parametrize(
    "text", ["", "5", "5 s", "s", "-5s", "5S", "5d", "1s1", "1..5s", "٥s", "nan", "1e3s"]
)
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^key: .* is no duration"):
        duration_s("key", text, 0, 1e6)


def test_the_schema_of_every_duration_refuses_other_texts() -> None:
    """The chart refuses such values before they reach a pod."""
    (document, *_), sections = msgspec.json.schema_components([Configuration])
    for key in DURATION_BOUNDS:
        found = document
        for part in key.split("."):
            found = sections[found["$ref"].rpartition("/")[2]]["properties"][part]
            found = found | next(iter(found.get("allOf", ())), {})
        assert "pattern" in found, key


@pytest.mark.parametrize("text", ["U\nSD", "\tUSD", "U\x1b[2J", "U\x7fD", "U\x85D"])
def test_the_schema_of_the_currency_refuses_control_characters(text: str) -> None:
    """The chart refuses such values before they reach a pod."""
    _, sections = msgspec.json.schema_components([Configuration])
    pattern = sections["CostSection"]["properties"]["currency"]["pattern"]
    assert re.search(pattern, text) is None
    assert all(re.search(pattern, name) for name in ("USD", "€", "US $"))


def test_values_are_by_canonical_names() -> None:
    config = load(with_key("values", {"NVIDIA H100 80GB HBM3": 2.5, "a100": 1}))
    assert config.policy().values == {"H100-80GB": 2.5, "A100": 1.0}
