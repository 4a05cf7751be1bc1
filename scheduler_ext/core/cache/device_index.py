"""The slices, classes and claims of a cluster, and what they mean for each node."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from scheduler_ext.core.dra.device import GPU_DRIVERS, DraDevice, NodeDevices, driver_versions, gpu_device
from scheduler_ext.core.dra.known_claims import Asked, KnownClaims, together
from scheduler_ext.core.dra.published import (
    Claim,
    DeviceAsk,
    DeviceClass,
    DeviceFacts,
    DeviceId,
    PublishedDevice,
    ResourceSlice,
    TaintRule,
)
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.request.request import UnitAsk
from scheduler_ext.core.request.resource_names import DEVICE_CLASS_PREFIX, ResourceNames

# Requests of claims with requirements beyond their class: each is answered for every device of the cluster.
MOST_ASKS: Final = 64


class Selector(Protocol):
    """The expressions of a class or a request."""

    problem: str | None

    def admits(self, device: DeviceFacts) -> bool | None:
        """Whether a device satisfies all of them; None if that is unknown."""


Compile = Callable[[Sequence[str]], Selector]
_Pool = tuple[str, str]


def ask_resource(ask: DeviceAsk) -> str:
    """The name of a resource for the devices of an ask: that of its class, if it asks no more than this."""
    name = DEVICE_CLASS_PREFIX + ask.device_class
    if ask == DeviceAsk(ask.device_class):
        return name
    return f"{name}?{hashlib.blake2b(repr(ask).encode(), digest_size=6).hexdigest()}"


class DeviceIndex:
    """All that the API group resource.k8s.io says of GPUs. One thread at a time. Updates return the names of
    the nodes that they change."""

    def __init__(
        self,
        compile_selectors: Compile,
        resources: ResourceNames,
        nodes: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """`nodes` returns the names of all nodes, which devices that several nodes reach can change."""
        self._nodes = nodes
        self._compile = compile_selectors
        self._resources = resources
        self._slices: dict[str, ResourceSlice] = {}
        self._pools: dict[_Pool, dict[str, ResourceSlice]] = {}
        self._pools_of: dict[str, set[_Pool]] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._claims: dict[str, Claim] = {}
        self._by_key: dict[str, str] = {}
        self._on_node: dict[str, dict[str, Claim]] = {}
        self._home_of: dict[str, str] = {}
        # Claims that hold devices of a node that is not known.
        self._homeless: set[str] = set()
        self._asks: dict[str, DeviceAsk] = {}
        self._served: frozenset[str] = frozenset()
        self._selectors: dict[str, tuple[Selector, ...]] = {}
        # How many claims have each ask with requirements of its own.
        self._asked: Counter[DeviceAsk] = Counter()
        self._digests: dict[str, tuple[DraDevice, ...]] = {}
        # The names under which some GPU was found.
        self._of_gpus: set[str] = set()
        # The claims that hold each device, and the devices of these as they were last published: claims
        # outlive slices.
        self._holders: dict[DeviceId, set[str]] = {}
        self._former: dict[DeviceId, PublishedDevice] = {}
        # Slices that several nodes reach; those with GPUs make these uncountable everywhere.
        self._unplaced: set[str] = set()
        self._has_open = False
        self._rules: dict[str, TaintRule] = {}

    def update_slice(self, item: ResourceSlice) -> set[str]:
        """A slice was published or changed."""
        before = self._slices.get(item.name)
        if before == item:
            return set()
        changed = self.remove_slice(item.name) if before is not None else set()
        self._slices[item.name] = item
        if item.node is None:
            self._unplaced.add(item.name)
            changed |= self._look_at_unplaced()
        pool = (item.driver, item.pool)
        self._pools.setdefault(pool, {})[item.name] = item
        for uid in tuple(self._homeless):
            changed |= self._settle(self._claims[uid])
        return changed | self._nodes_of(pool)

    def remove_slice(self, name: str) -> set[str]:
        item = self._slices.pop(name, None)
        if item is None:
            return set()
        self._digests.pop(name, None)
        for device in item.devices:
            if (id := DeviceId(item.driver, item.pool, device.name)) in self._holders:
                self._former[id] = device
        pool = (item.driver, item.pool)
        changed = self._nodes_of(pool)
        if name in self._unplaced:
            self._unplaced.discard(name)
            changed |= self._look_at_unplaced()
        slices = self._pools[pool]
        del slices[name]
        if not slices:
            del self._pools[pool]
        for node in changed:
            if not any(each.node == node for each in slices.values()) and node in self._pools_of:
                self._pools_of[node].discard(pool)
                if not self._pools_of[node]:
                    del self._pools_of[node]
        return changed

    def update_class(self, item: DeviceClass) -> set[str]:
        if self._classes.get(item.name) == item:
            return set()
        self._classes[item.name] = item
        return self._renamed()

    def remove_class(self, name: str) -> set[str]:
        return self._renamed() if self._classes.pop(name, None) is not None else set()

    def update_claim(self, item: Claim) -> set[str]:
        before = self._claims.get(item.uid)
        if before == item:
            return set()
        # A claim that only changed still holds what no slice lists any more.
        held = {each.id for each in item.devices or ()}
        former = {id: device for id, device in self._former.items() if id in held} if before else {}
        changed = self.remove_claim(item.uid)
        self._former.update(former)
        self._claims[item.uid] = item
        self._by_key[item.key] = item.uid
        for id in held:
            self._holders.setdefault(id, set()).add(item.uid)
        changed |= self._settle(item)
        if item.devices is None:
            changed |= self._take_asks(item)
        return changed

    def remove_claim(self, uid: str) -> set[str]:
        item = self._claims.pop(uid, None)
        if item is None:
            return set()
        if self._by_key.get(item.key) == uid:
            del self._by_key[item.key]
        for each in item.devices or ():
            holders = self._holders.get(each.id, set())
            holders.discard(uid)
            if not holders:
                self._holders.pop(each.id, None)
                self._former.pop(each.id, None)
        if item.devices is None:
            self._asked -= Counter(_own_asks(item))
        self._homeless.discard(uid)
        node = self._home_of.pop(uid, None)
        if node is None:
            return set()
        del self._on_node[node][uid]
        if not self._on_node[node]:
            del self._on_node[node]
        return {node}

    def update_rule(self, item: TaintRule) -> set[str]:
        """A DeviceTaintRule was created or changed."""
        before = self._rules.get(item.name)
        if before == item:
            return set()
        changed = self.remove_rule(item.name) if before is not None else set()
        self._rules[item.name] = item
        return changed | self._tainted_by(item)

    def remove_rule(self, name: str) -> set[str]:
        item = self._rules.pop(name, None)
        return self._tainted_by(item) if item is not None else set()

    def slices(self) -> set[str]:
        return set(self._slices)

    def classes(self) -> set[str]:
        return set(self._classes)

    def claims(self) -> set[str]:
        return set(self._claims)

    def rules(self) -> dict[str, TaintRule]:
        """The DeviceTaintRules by name."""
        return dict(self._rules)

    def claim(self, namespace: str, name: str) -> Claim | None:
        uid = self._by_key.get(f"{namespace}/{name}")
        return self._claims.get(uid) if uid is not None else None

    def resource_of(self, ask: DeviceAsk) -> str | None:
        """The name of the resource that an ask is counted as; None if its class does not exist or has no GPU,
        or if too many different asks are known. Any thread may call it."""
        name = ask_resource(ask)
        is_known = ask.device_class in self._resources.device_classes
        has_gpus = is_known or DEVICE_CLASS_PREFIX + ask.device_class in self._of_gpus
        return name if has_gpus and name in self._asks else None

    def asked(self, namespace: str, names: Iterable[str]) -> Asked:
        """The requests of a pod's claims, except of those that hold devices already. A claim that is not
        known (yet) may ask any GPU. Any thread may call it."""
        return together(self._asked_by(self.claim(namespace, name)) for name in names)

    def known_claims(self) -> KnownClaims:
        """The requests of all claims now."""
        by_key = {claim.key: together((self._asked_by(claim),)) for claim in self._claims.values()}
        return KnownClaims(by_key, together((self._asked_by(None),)))

    def _asked_by(self, claim: Claim | None) -> Asked:
        if claim is None:
            any_gpu = (UnitAsk(name, 0) for name in self._served & self._of_gpus)
            return Asked(tuple(any_gpu), ("a ResourceClaim that is not known here",))
        if claim.devices is not None:
            return Asked()
        named = ((self.resource_of(ask), count) for ask, count in claim.requests)
        units = tuple(UnitAsk(name, count) for name, count in named if name is not None)
        problems = (self._problem_of(unit.resource) for unit in units)
        found = (f"a selector ({problem})" for problem in problems if problem is not None)
        missing = (*claim.not_modelled, *found) if units else ()
        return Asked(units, tuple(f"{feature} of {claim.title}" for feature in missing))

    def problems(self) -> dict[str, str]:
        """Why devices of a resource are unknown, by its name."""
        found = {name: self._problem_of(name) for name in self._selectors}
        return {name: problem for name, problem in found.items() if problem}

    def _problem_of(self, name: str) -> str | None:
        return next((each.problem for each in self._selectors.get(name, ()) if each.problem), None)

    def has_devices(self, node: str) -> bool:
        """Whether slices list devices of a node, in complete pools."""
        return any(self._complete(pool) for pool in self._pools_of.get(node, ()))

    def claims_on(self, node: str) -> tuple[Claim, ...]:
        """The claims that hold devices of a node, by their names."""
        return tuple(sorted(self._on_node.get(node, {}).values(), key=lambda claim: claim.key))

    def node(self, name: str) -> NodeDevices | None:
        """The devices of a node, of the newest generation of its complete pools, and those that claims hold
        though no slice lists them any more. None if DRA has nothing there."""
        claims = self._on_node.get(name, {})
        pools = self._pools_of.get(name, set())
        if not pools and not claims and not self._has_open:
            return None
        devices: list[DraDevice] = []
        counters: list[tuple[tuple[str, str, str], int]] = []
        first: PublishedDevice | None = None
        for pool in sorted(pools):
            for item in self._complete(pool):
                counters += [((item.pool, *key), amount) for key, amount in item.counters.items()]
                if item.node == name:
                    devices += self._digest(item)
                    first = first or next(iter(item.devices), None)
        known = {device.id for device in devices}
        for claim in claims.values():
            for held in claim.devices or ():
                if held.id not in known and (former := self._last_known(held.id)) is not None:
                    known.add(held.id)
                    devices.append(gpu_device(former, held.id.pool, frozenset()))
        driver, cuda = driver_versions(first) if first is not None else (None, None)
        open_names = frozenset(self._asks) if self._has_open else frozenset()
        if not devices and not claims and not open_names:
            return None
        return NodeDevices(
            tuple(devices), self._asks, self._served, open_names, tuple(counters), driver, cuda
        )

    def _nodes_of(self, pool: _Pool) -> set[str]:
        nodes = {item.node for item in self._pools.get(pool, {}).values() if item.node is not None}
        for node in nodes:
            self._pools_of.setdefault(node, set()).add(pool)
        return nodes

    def _complete(self, pool: _Pool) -> list[ResourceSlice]:
        """The slices of the newest generation, if all are there and no two devices have one name
        (pools_stable.go of k8s.io/dynamic-resource-allocation)."""
        slices = self._pools.get(pool, {}).values()
        newest = max((item.generation for item in slices), default=0)
        current = sorted((item for item in slices if item.generation == newest), key=lambda item: item.name)
        names = [device.name for item in current for device in item.devices]
        if not current or len(current) != current[0].slices or len(set(names)) != len(names):
            return []
        return current

    def _digest(self, item: ResourceSlice) -> tuple[DraDevice, ...]:
        found = self._digests.get(item.name)
        if found is None:
            rules = [rule for rule in self._rules.values() if rule.may_be_about(item)]
            found = self._digests[item.name] = tuple(
                gpu_device(_tainted(device, item.pool, rules), item.pool, self._admitting(device))
                for device in item.devices
                if self._is_gpu(device)
            )
            self._of_gpus.update(*(device.resources for device in found))
        return found

    def _last_known(self, id: DeviceId) -> PublishedDevice | None:
        """A device that no complete pool has: from a slice of its pool, else as it was last published."""
        for item in self._pools.get((id.driver, id.pool), {}).values():
            for device in item.devices:
                if device.name == id.name and self._is_gpu(device):
                    return device
        former = self._former.get(id)
        return former if former is not None and self._is_gpu(former) else None

    def _tainted_by(self, rule: TaintRule) -> set[str]:
        """Forget what was known of the devices that a rule may be about. Returns their nodes."""
        nodes: set[str] = set()
        for item in self._slices.values():
            if rule.may_be_about(item):
                self._digests.pop(item.name, None)
                if item.node is not None:
                    nodes.add(item.node)
        return nodes

    def _look_at_unplaced(self) -> set[str]:
        """Find out whether a GPU is within reach of several nodes. Returns all nodes if that changed."""
        before = self._has_open
        self._has_open = any(
            self._is_gpu(device) for name in self._unplaced for device in self._slices[name].devices
        )
        return set(self._nodes()) if self._has_open != before else set()

    def _is_gpu(self, device: PublishedDevice) -> bool:
        """A device of a driver for GPUs, or of a class that serves a resource of GPUs."""
        return device.facts.driver in GPU_DRIVERS or any(
            self._admits(name, device.facts) is True for name in self._served
        )

    def _admitting(self, device: PublishedDevice) -> frozenset[str]:
        return frozenset(name for name in self._asks if self._admits(name, device.facts) is not False)

    def _admits(self, name: str, facts: DeviceFacts) -> bool | None:
        answer: bool | None = True
        for selector in self._selectors[name]:
            each = selector.admits(facts)
            if each is False:
                return False
            if each is None:
                answer = None
        return answer

    def _renamed(self) -> set[str]:
        """Find all names again after a change of the classes or of what claims ask."""
        asks = {ask_resource(ask): ask for ask in map(DeviceAsk, sorted(self._classes))}
        served = set()
        for item in sorted(
            self._classes.values(), key=lambda each: (-each.created_at, each.name), reverse=True
        ):
            # The last one written wins: the newest, then the first by name.
            if item.extended_resource is not None and self._resources.is_gpu(item.extended_resource):
                asks[item.extended_resource] = DeviceAsk(item.name)
                served.add(item.extended_resource)
        served |= {ask_resource(DeviceAsk(name)) for name in self._classes}
        own = [ask for ask in self._asked if ask.device_class in self._classes]
        asks |= {ask_resource(ask): ask for ask in own[:MOST_ASKS]}
        self._asks, self._served = asks, frozenset(served)
        self._selectors = {
            name: tuple(
                self._compile(expressions)
                for expressions in (self._classes[ask.device_class].expressions, ask.expressions)
                if expressions
            )
            for name, ask in asks.items()
        }
        self._digests.clear()
        self._of_gpus &= self._asks.keys()
        changed = self._look_at_unplaced()
        return changed | set(self._nodes() if self._has_open else self._pools_of)

    def _settle(self, claim: Claim) -> set[str]:
        """Assign a claim to the node whose devices it holds."""
        self._homeless.discard(claim.uid)
        node = self._node_of(claim)
        if node is None:
            if claim.devices:
                self._homeless.add(claim.uid)
            return set()
        self._home_of[claim.uid] = node
        self._on_node.setdefault(node, {})[claim.uid] = claim
        return {node}

    def _take_asks(self, claim: Claim) -> set[str]:
        own = _own_asks(claim)
        self._asked.update(own)
        unnamed = [ask for ask in own if ask_resource(ask) not in self._asks]
        if not any(ask.device_class in self._classes for ask in unnamed):
            return set()
        # Those that no claim asks any more make room.
        named = sum(ask_resource(ask) in self._asks for ask in self._asked)
        return self._renamed() if named < MOST_ASKS else set()

    def _node_of(self, claim: Claim) -> str | None:
        if not claim.devices:
            return None
        if claim.node is not None:
            return claim.node
        pools = {(held.id.driver, held.id.pool) for held in claim.devices}
        nodes = {item.node for pool in pools for item in self._pools.get(pool, {}).values()}
        return next((node for node in nodes if node is not None), None)


def _tainted(device: PublishedDevice, pool: str, rules: Iterable[TaintRule]) -> PublishedDevice:
    """The device with the taints of rules, which kube-scheduler adds to those in the slice."""
    id = DeviceId(device.facts.driver, pool, device.name)
    more = tuple(rule.taint for rule in rules if rule.is_about(id))
    return replace(device, taints=(*device.taints, *more)) if more else device


def with_claims(pending: PendingPod, devices: DeviceIndex | None) -> PendingPod:
    """A waiting pod with what it asks through its claims."""
    if devices is None or not pending.claims or pending.invalid is not None:
        return pending
    pod = pending.pod
    units = (*pod.request.units, *devices.asked(pod.namespace, pending.claims).units)
    return replace(pending, pod=replace(pod, request=replace(pod.request, units=units)))


def _own_asks(claim: Claim) -> list[DeviceAsk]:
    """What its requests require beyond their classes."""
    return [each.ask for each in claim.requests if each.ask != DeviceAsk(each.ask.device_class)]
