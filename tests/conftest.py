"""Hypothesis for the whole suite: the same examples on every run, and many new ones on demand.

``pytest --hypothesis-profile=fresh`` draws new examples each time, as many as ``long`` has; its findings
belong into an example.
"""

from __future__ import annotations

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
