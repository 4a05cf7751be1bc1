"""Shared parts of the tests of binding's calls."""

from __future__ import annotations

import time
from typing import Any

import pytest

from scheduler_ext.binding.outcome import Done, Outcome, Refused
from scheduler_ext.core.cache.intent import Intent
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.request import GpuRequest, ShareAsk
from tests.cluster.api.api_faults import Refuse

HELD = BoundPod(
    "uid-one",
    "default",
    "one",
    7,
    GpuRequest(shares=ShareAsk((("main", 4096),)), priority=7),
    {"main": ("GPU-0",)},
)
INTENT = Intent(HELD, "12", "extender-a")


def soon() -> float:
    """A deadline that no call here approaches."""
    return time.monotonic() + 60


def value(outcome: Outcome[Any]) -> Any:
    """The answers."""
    assert isinstance(outcome, Done), outcome
    return outcome.value


REFUSALS = [
    pytest.param(Refuse(409, "Conflict", "no"), Refused(409, "409 Conflict: no"), id="a conflict"),
    pytest.param(Refuse(403, "Forbidden", "no"), Refused(403, "403 Forbidden: no"), id="no right to"),
    pytest.param(
        Refuse(429, "TooManyRequests", "no", 3),
        Refused(429, "429 TooManyRequests: no", 3.0),
        id="a busy server",
    ),
]
