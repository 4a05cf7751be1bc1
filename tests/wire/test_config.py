"""The configuration: defaults, bounds, and messages for mistakes."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

import msgspec
import pytest

from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.errors import ConfigError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.scores import DEFAULT_WEIGHTS
from scheduler_ext.wire import config as module
from scheduler_ext.wire.config import (
    Configuration,
    CostSection,
    Duration,
    IdleSection,
    Section,
    check,
    duration_bounds,
    feature_sections,
    load_config,
)
from scheduler_ext.wire.times import duration_s, duration_text
from tests.wire.configuring import HEADER, check_bounds, load, refusal_of, with_key


def test_every_knob_has_a_default() -> None:
    """The values are those of config/default.yaml."""
    config = load(HEADER)
    assert config == Configuration()
    check(config)
    assert config.policy() == SchedulingPolicy()
    assert config.resource_names() == ResourceNames()


@pytest.mark.parametrize(
    ("key", "accepted", "refused"),
    [
        ("filter.maxCandidates", (0, 1_000_000), (-1, 1_000_001, "100", 1.5)),
        ("memory.headroomPercent", (0, 90), (-1, 91)),
        ("inventory.staleAfter", ("1s",), ("0s", 150)),
        ("inventory.missingAfter", ("86400s",), ("25h", "150s")),
        ("idle.after", ("1s", "168h"), ("0s", "169h")),
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
        ("inspection.decisionBytes", (2**16, 2**32), (2**16 - 1, 2**32 + 1)),
        ("cost.perUnit", (1_000_000,), (0,)),
        ("cost.currency", ("€",), ("", "U\x1bSD", "USD\n")),
    ],
)
def test_every_key_has_its_bounds(key: str, accepted: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    check_bounds(key, accepted, refused)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (with_key("bind.deadline", "61s"), "bind.deadline: 61s is outside 100ms to 1m"),
        (with_key("server.gracefulTimeout", "soon"), "server.gracefulTimeout: 'soon' is no duration;"),
        (with_key("inventory.missingAfter", "150s"), "inventory.missingAfter: must be later than staleAfter"),
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
        (
            with_key("score.strategy", "random"),
            "score.strategy: Invalid enum value 'random'; docs/reference/configuration.md has the values",
        ),
        (with_key("cost.currency", "USD\n"), "cost.currency: has control characters"),
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
    for section in Configuration().with_sections(*(each() for each in feature_sections())).sections():
        _, schema = msgspec.json.schema_components([type(section)])
        for name in section.bounds:
            key = section.key_of(name)
            assert "pattern" in schema[type(section).__name__]["properties"][key.rpartition(".")[2]], key


@pytest.mark.parametrize("text", ["U\nSD", "\tUSD", "U\x1b[2J", "U\x7fD", "U\x85D"])
def test_the_schema_of_the_currency_refuses_control_characters(text: str) -> None:
    """The chart refuses such values before they reach a pod."""
    _, sections = msgspec.json.schema_components([CostSection])
    pattern = sections["CostSection"]["properties"]["currency"]["pattern"]
    assert re.search(pattern, text) is None
    assert all(re.search(pattern, name) for name in ("USD", "€", "US $"))


def test_values_are_by_canonical_names() -> None:
    config = load(with_key("values", {"NVIDIA H100 80GB HBM3": 2.5, "a100": 1}))
    assert config.policy().values == {"H100-80GB": 2.5, "A100": 1.0}


class Inner(Section):
    key = "made.inner"
    bounds: ClassVar = {"keep_for": (1, 60)}
    keep_for: Duration = "5s"


class Made(Section):
    """A section of a feature."""

    key = "made"
    most: int = 3
    inner: Inner = msgspec.field(default_factory=Inner)

    def check(self, config: Configuration) -> None:
        if self.most > config.filter.max_candidates:
            raise ConfigError("made.most: above filter.maxCandidates")


class Within(Section):
    """A section of a feature inside a section of the kernel."""

    key = "idle.within"
    mode: Literal["off", "on"] = "off"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "feature_sections", lambda: [Made, Within])


@pytest.mark.usefixtures("made")
def test_sections_of_features_are_read_from_their_places() -> None:
    config = load(HEADER | {"made": {"inner": {"keepFor": "7s"}}, "idle": {"after": "1h", "within": {}}})
    assert config.of(Made) == Made(inner=Inner(keep_for="7s"))
    assert config.of(Made).inner.duration_s("keep_for") == 7
    assert (config.of(Within), config.idle) == (Within(), IdleSection(after="1h"))
    assert config == Configuration(idle=IdleSection(after="1h")).with_sections(config.of(Made), Within())
    assert load(HEADER).of(Made) == Made()
    assert duration_bounds()["made.inner.keepFor"] == (1, 60)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("document", "message"),
    [
        (with_key("made", None), "made: Expected `object`, got `null`"),
        (with_key("made.most", "3"), "made.most: Expected `int`, got `str`"),
        (with_key("made.other", 3), "made.other: unknown key; see docs/reference/configuration.md"),
        (with_key("made.inner.keep_for", "3s"), "made.inner.keep_for: unknown key"),
        (with_key("made.inner.keepFor", "61s"), "made.inner.keepFor: 61s is outside 1s to 1m"),
        (with_key("made.most", 101), "made.most: above filter.maxCandidates"),
        (with_key("idle", None), "idle: Expected `object`, got `null`"),
        (with_key("idle.within", None), "idle.within: Expected `object`, got `null`"),
        (with_key("idle.within.mode", False), "idle.within.mode: YAML reads off without quotes as false; "),
        (with_key("idle.other", {}), "idle.other: unknown key"),
    ],
)
def test_mistakes_in_sections_of_features_are_named(document: Any, message: str) -> None:
    assert refusal_of(document).startswith(message)


@pytest.mark.parametrize("key", ["made", "idle.within"])
def test_a_section_of_a_feature_that_is_not_installed_is_unknown(key: str) -> None:
    assert refusal_of(with_key(key, {})) == f"{key}: unknown key; see docs/reference/configuration.md"
