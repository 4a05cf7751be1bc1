"""MIG placement policies: the published ones in mig_references.py, the others in a module each.

A new policy is a new file here: the name of the file, with hyphens, is the policy's name. ``policy(geometry,
mix)`` in it returns a MigPolicy that starts with that mix as its target.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.mig.mig_policy import PolicyFactory
from scheduler_ext.sim.mig.policies.mig_references import REFERENCES


def policy_names() -> tuple[str, ...]:
    """The names of all policies, sorted."""
    modules = {module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__)}
    return tuple(sorted((modules - {"mig-references"}) | REFERENCES.keys()))


def policy_factory(name: str) -> PolicyFactory:
    """The builder of a policy. Raises SimulationError for an unknown name."""
    if name not in policy_names():
        raise SimulationError(f"policy {name[:80]}: not known for MIG; choose of {', '.join(policy_names())}")
    if name in REFERENCES:
        return REFERENCES[name]
    factory: PolicyFactory = import_module(f"{__name__}.{name.replace('-', '_')}").policy
    return factory
