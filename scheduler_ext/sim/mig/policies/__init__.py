"""MIG placement policies, one module each: its name, with hyphens, is the policy's.

A new one needs its own file only. A module has ``policy(geometry, mix)``, which returns a MigPolicy that
starts with that mix as its target.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.mig.mig_policy import PolicyFactory


def policy_names() -> tuple[str, ...]:
    """The names of all policies, sorted."""
    return tuple(sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__)))


def policy_factory(name: str) -> PolicyFactory:
    """What builds the policy of that name. Raises SimulationError for a name that no policy has."""
    if name not in policy_names():
        raise SimulationError(f"policy {name[:80]}: not known for MIG; choose of {', '.join(policy_names())}")
    factory: PolicyFactory = import_module(f"{__name__}.{name.replace('-', '_')}").policy
    return factory
