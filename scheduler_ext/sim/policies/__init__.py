"""The policies: several in published.py, the others in a module each.

A new policy is a new file here, and nothing else: the name of the file, with hyphens, is the policy's name,
and ``policy`` in it builds the policy.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.placement_policy import Factory
from scheduler_ext.sim.policies.published import PUBLISHED


def policy_names() -> list[str]:
    """All names, sorted."""
    modules = {module.name.replace("_", "-") for module in iter_modules(__path__)} - {"published"}
    return sorted(modules | PUBLISHED.keys())


def policy_factory(name: str) -> Factory:
    """The builder of a policy; raises SimulationError with the known names."""
    known = policy_names()
    if name not in known:
        raise SimulationError(f"policy {name[:80]}: unknown; known are {', '.join(known)}")
    if name in PUBLISHED:
        return PUBLISHED[name]
    factory: Factory = import_module(f"{__name__}.{name.replace('-', '_')}").policy
    return factory
