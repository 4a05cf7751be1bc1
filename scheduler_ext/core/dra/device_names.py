"""The names of resources under which devices are asked: those of DeviceClasses, and one for each requirement
of claims beyond a class."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol

from scheduler_ext.core.dra.device import GPU_DRIVERS
from scheduler_ext.core.dra.published import Claim, DeviceClass, DeviceFacts, DeviceRequirements
from scheduler_ext.core.request.resource_names import DEVICE_CLASS_PREFIX, ResourceNames

# Each requirement is answered for every device of the cluster, and each node has a number of units for it.
MOST_ASKS: Final = 64
# So many answers at most: 8 requirements in a cluster of 40,000 GPUs.
MOST_ANSWERS: Final = 320_000


class DeviceExpressions(Protocol):
    """The expressions of a class or a request."""

    problem: str | None
    failure: str | None

    def admits(self, device: DeviceFacts) -> bool | None:
        """Whether a device satisfies all of them; None if that is unknown."""


Compile = Callable[[Sequence[str]], DeviceExpressions]
# The class's, then those of the request.
_Selectors = tuple[DeviceExpressions, ...]


def class_resource(ask: DeviceRequirements) -> str:
    """The name of a resource for the devices of an ask: that of its class, if it asks no more than this."""
    name = DEVICE_CLASS_PREFIX + ask.device_class
    if ask == DeviceRequirements(ask.device_class):
        return name
    return f"{name}?{hashlib.blake2b(repr(ask).encode(), digest_size=6).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Names:
    """The names at one moment: the requirements behind each, its selectors, and which of them a node without
    a device plugin serves. `of_gpus` are those that stand for GPUs whatever the driver of their devices."""

    asks: Mapping[str, DeviceRequirements] = field(default_factory=dict)
    served: frozenset[str] = frozenset()
    selectors: Mapping[str, _Selectors] = field(default_factory=dict)
    of_gpus: frozenset[str] = frozenset()

    def is_gpu(self, device: DeviceFacts) -> bool:
        """A device of a driver for GPUs, or of a class that serves a resource of GPUs or is configured."""
        return device.driver in GPU_DRIVERS or any(
            admits(self.selectors[name], device) is True for name in self.of_gpus
        )

    def admitting(self, device: DeviceFacts) -> frozenset[str]:
        """The names under which pods may get a device."""
        return frozenset(name for name, each in self.selectors.items() if admits(each, device) is not False)

    def renamed(self, resources: frozenset[str], before: Names, device: DeviceFacts) -> frozenset[str]:
        """`admitting` of a device that had these names among those `before`; classes are the same."""
        more = (name for name in self.selectors if name not in before.selectors)
        found = {name for name in more if admits(self.selectors[name], device) is not False}
        return frozenset((resources & self.asks.keys()) | found)

    def problem_of(self, name: str) -> str | None:
        """Why devices of a name are unknown, some or all."""
        found = (each.problem or each.failure for each in self.selectors.get(name, ()))
        return next((problem for problem in found if problem), None)


def admits(selectors: Iterable[DeviceExpressions], device: DeviceFacts) -> bool | None:
    """Whether a device satisfies all selectors; None if that is unknown."""
    answer: bool | None = True
    for selector in selectors:
        each = selector.admits(device)
        if each is False:
            return False
        if each is None:
            answer = None
    return answer


class DeviceNames:
    """The names that classes and waiting claims make. `now` is replaced as a whole with every change."""

    def __init__(self, compile_selectors: Compile, resources: ResourceNames) -> None:
        self._compile = compile_selectors
        self._resources = resources
        self._classes: dict[str, DeviceClass] = {}
        # How many waiting claims have each ask with requirements of its own.
        self._asked: Counter[DeviceRequirements] = Counter()
        self.now = Names()

    def update_class(self, item: DeviceClass, devices: int) -> bool:
        """Whether that changes the names. `devices`: how many there are in the cluster."""
        if self._classes.get(item.name) == item:
            return False
        self._classes[item.name] = item
        self._find(devices)
        return True

    def remove_class(self, name: str, devices: int) -> bool:
        if self._classes.pop(name, None) is None:
            return False
        self._find(devices)
        return True

    def classes(self) -> set[str]:
        return set(self._classes)

    def extended_resource(self, name: str) -> str | None:
        """The extended resource that a class serves."""
        item = self._classes.get(name)
        return item.extended_resource if item is not None else None

    def is_of_whole_gpus(self, name: str) -> bool:
        """Whether the devices of a class stand for whole GPUs, by the extended resource that it serves."""
        return self.extended_resource(name) in self._resources.whole

    def waits(self, claim: Claim, devices: int) -> frozenset[str]:
        """A claim asks for devices. Returns the names that this adds; those that no claim asks any more make
        room."""
        own = _own_asks(claim)
        self._asked.update(own)
        unnamed = {ask for ask in own if ask.device_class in self._classes and not self._has(ask)}
        if not unnamed or sum(map(self._has, self._asked)) >= _most(devices):
            return frozenset()
        before = self.now.asks.keys()
        self._name(devices)
        return frozenset(self.now.asks.keys() - before)

    def waits_no_more(self, claim: Claim) -> None:
        self._asked -= Counter(_own_asks(claim))

    def _has(self, ask: DeviceRequirements) -> bool:
        return class_resource(ask) in self.now.asks

    def _find(self, devices: int) -> None:
        """Find all names again after a change of the classes."""
        asks = {class_resource(ask): ask for ask in map(DeviceRequirements, sorted(self._classes))}
        served = set(asks)
        for item in sorted(
            self._classes.values(), key=lambda each: (-each.created_at, each.name), reverse=True
        ):
            # The last one written wins: the newest, then the first by name.
            if item.extended_resource is not None and self._resources.is_gpu(item.extended_resource):
                asks[item.extended_resource] = DeviceRequirements(item.name)
                served.add(item.extended_resource)
        own = [ask for ask in self.now.asks.values() if ask != DeviceRequirements(ask.device_class)]
        selectors = {name: self._selectors(ask) for name, ask in asks.items()}
        of_gpus = frozenset(filter(self._resources.is_gpu, served))
        self.now = Names(asks, frozenset(served), selectors, of_gpus)
        self._name(devices, own)

    def _name(self, devices: int, former: Iterable[DeviceRequirements] = ()) -> None:
        """Give names to the requirements of waiting claims, and keep `former` and present ones as long as
        there is room: their claims come and go."""
        now = self.now
        asks = {name: ask for name, ask in now.asks.items() if ask == DeviceRequirements(ask.device_class)}
        waiting = [ask for ask in self._asked if self._has(ask)]
        waiting += [ask for ask in self._asked if not self._has(ask)]
        present = [ask for ask in now.asks.values() if class_resource(ask) not in asks]
        own = dict.fromkeys(
            ask for ask in chain(waiting, present, former) if ask.device_class in self._classes
        )
        asks |= {class_resource(ask): ask for ask in list(own)[: _most(devices)]}
        selectors = {name: now.selectors.get(name) or self._selectors(ask) for name, ask in asks.items()}
        self.now = Names(asks, now.served, selectors, now.of_gpus)

    def _selectors(self, ask: DeviceRequirements) -> _Selectors:
        both = (self._classes[ask.device_class].expressions, ask.expressions)
        return tuple(self._compile(expressions) for expressions in both if expressions)


def _most(devices: int) -> int:
    return min(MOST_ASKS, MOST_ANSWERS // max(1, devices))


def _own_asks(claim: Claim) -> list[DeviceRequirements]:
    """What its requests require beyond their classes."""
    if claim.devices is not None:
        return []
    return [each.ask for each in claim.requests if each.ask != DeviceRequirements(each.ask.device_class)]
