"""Hypothesis for the whole suite: the same examples on every run, and many fresh ones on demand.

``pytest --hypothesis-profile=fresh`` draws new examples each time, as many as ``long`` has; what it finds
belongs into an example.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Deadlines measure the machine, and a cluster is large data by nature; neither says anything of a law.
_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)

# At every change half of the examples that CI tries (full), and always the same ones.
settings.register_profile(
    "default", max_examples=50, derandomize=True, deadline=None, suppress_health_check=_QUIET
)
settings.register_profile(
    "full", max_examples=100, derandomize=True, deadline=None, suppress_health_check=_QUIET
)
settings.register_profile(
    "long", max_examples=2000, derandomize=True, deadline=None, suppress_health_check=_QUIET
)
settings.register_profile("fresh", max_examples=2000, deadline=None, suppress_health_check=_QUIET)
settings.load_profile("default")


class _Deaths(logging.Handler):
    """Collects the threads that die."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture(autouse=True)
def deaths(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test in which a background thread dies, unless it is marked ``dies``."""
    handler, logger = _Deaths(), logging.getLogger("scheduler_ext.background")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    if request.node.get_closest_marker("dies") is None:
        assert [logging.Formatter().format(record) for record in handler.records] == []
