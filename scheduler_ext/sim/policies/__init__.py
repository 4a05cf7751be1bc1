"""The policies, a module each: its name, with hyphens, is the policy's, and its ``policy`` builds it.

A new one is a new file here, and nothing else.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.placement_policy import Factory


def policy_names() -> list[str]:
    """What there is, sorted."""
    return sorted(module.name.replace("_", "-") for module in iter_modules(__path__))


def policy_factory(name: str) -> Factory:
    """What builds the policy of this name; raises SimulationError, which lists the known ones."""
    known = policy_names()
    if name not in known:
        raise SimulationError(f"policy {name[:80]}: unknown; known are {', '.join(known)}")
    factory: Factory = import_module(f"{__name__}.{name.replace('-', '_')}").policy
    return factory
