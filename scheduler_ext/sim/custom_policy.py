"""Placement policies of users: a class in a file, or an entry point of an installed distribution. The text of
a file travels to the processes of a sweep, which may be on machines without the file."""

import os
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.guarded_policy import Guarded, described, reported
from scheduler_ext.sim.placement_policy import Policy, Target
from scheduler_ext.sim.policies import POLICIES
from scheduler_ext.wire.files import MAX_CONFIGURATION_BYTES, read_file

ENTRY_POINTS = "scheduler_ext.policies"
_SUFFIX = ".py"
_TIES = ("first", "random")


@dataclass(frozen=True, slots=True)
class CustomPolicy:
    """A policy by its `name` in reports. `origin` is the path of a file, and `source` the text in it; or
    `origin` is the name of an entry point, and `source` is None."""

    name: str
    origin: str
    source: bytes | None = None

    def __call__(self, target: Target) -> Policy:
        """The policy for a run. Raises SimulationError, there and in the run, for any mistake of its code."""
        return Guarded(_class_of(self.origin, self.source), self.name, target)


def is_custom(text: str) -> bool:
    """Whether a text names a file or an entry point; the file need not exist."""
    return _is_file(text) or text in entry_point_names()


def entry_point_names() -> list[str]:
    """The names of all entry points for policies, sorted."""
    return sorted(entry_points(group=ENTRY_POINTS).names)


def find_policy(text: str) -> CustomPolicy:
    """The policy of a file or an entry point. Raises SimulationError naming it if it cannot be used."""
    source = _read(Path(text)) if _is_file(text) else None
    policy = _class_of(text, source)
    # The name of a parent, which may be a policy of this package, is not its own.
    name = vars(policy).get("name", Path(text).stem if source is not None else text)
    if not isinstance(name, str) or not name.strip():
        raise SimulationError(
            f"{text}: the name {name!r} of {policy.__name__} is no text; write name = 'mine'"
        )
    if policy.published_ties not in _TIES:
        known = " or ".join(map(repr, _TIES))
        raise SimulationError(f"{text}: published_ties is {policy.published_ties!r}; write {known}")
    if policy.evaluate is Policy.evaluate:
        raise SimulationError(f"{text}: {policy.__name__} has no method evaluate(self, kind, nodes)")
    if name in POLICIES:
        raise SimulationError(
            f"{text}: {name} is the name of a built-in policy; give {policy.__name__} another name"
        )
    return CustomPolicy(name, text, source)


def _is_file(text: str) -> bool:
    return text.endswith(_SUFFIX) or any(mark in text for mark in (os.sep, os.altsep) if mark)


def _read(path: Path) -> bytes:
    try:
        return read_file(path, MAX_CONFIGURATION_BYTES)
    except OSError as error:
        raise SimulationError(f"{path}: cannot be read: {error.strerror}") from None


def _class_of(origin: str, source: bytes | None) -> type[Policy]:
    """Raises SimulationError naming the file or the entry point."""
    return _of_entry_point(origin) if source is None else _of_file(origin, source)


def _of_file(path: str, source: bytes) -> type[Policy]:
    # A name that no import finds. Dataclasses look their module up while they are defined.
    module = ModuleType(f"policy file {path}")
    module.__file__ = path
    sys.modules[module.__name__] = module
    with reported(path):
        exec(compile(source, path, "exec", dont_inherit=True), vars(module))
    found = [
        value
        # Once each, as a class may have several names.
        for value in dict.fromkeys(each for each in vars(module).values() if isinstance(each, type))
        if issubclass(value, Policy) and value.__module__ == module.__name__
    ]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(each.__name__ for each in found)
        raise SimulationError(f"{path}: has {len(found)} subclasses of Policy: {names}; keep one in a file")
    raise SimulationError(
        f"{path}: has no subclass of {Policy.__module__}.{Policy.__name__}; the file defines one"
    )


def _of_entry_point(name: str) -> type[Policy]:
    found: list[EntryPoint] = list(entry_points(group=ENTRY_POINTS, name=name))
    if not found:
        raise SimulationError(f"{name}: no entry point of the group {ENTRY_POINTS} has this name")
    point, *others = found
    if any(other.value != point.value for other in others):
        values = ", ".join(each.value for each in found)
        raise SimulationError(f"entry point {name}: {len(found)} distributions have it: {values}; keep one")
    try:
        policy = point.load()
    except Exception as error:
        raise SimulationError(f"entry point {name} = {point.value}: {described(error)}") from None
    if not isinstance(policy, type) or not issubclass(policy, Policy):
        raise SimulationError(
            f"entry point {name} = {point.value}: is no subclass of {Policy.__module__}.{Policy.__name__}"
        )
    return policy
