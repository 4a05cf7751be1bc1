"""The slices, classes and claims of a cluster, and what they mean for each node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

from scheduler_ext.core.dra.claims import Claims
from scheduler_ext.core.dra.consumable import MANY, claims_served, taken_amounts
from scheduler_ext.core.dra.device import (
    DraDevice,
    NodeDevices,
    amounts,
    driver_versions,
    gpu_device,
    memory_mib,
)
from scheduler_ext.core.dra.device_names import Compile, DeviceNames, Names, admits, class_resource
from scheduler_ext.core.dra.hosts import (
    CandidateDevice,
    CandidateDevices,
    DeviceCount,
    Find,
    Supply,
    hosts_of,
    hosts_together,
    total,
)
from scheduler_ext.core.dra.known_claims import (
    ClaimDemand,
    ClaimRequest,
    KnownClaims,
    together,
    unknown_claim,
)
from scheduler_ext.core.dra.pools import Pools
from scheduler_ext.core.dra.published import (
    Claim,
    DeviceClass,
    DeviceId,
    DeviceRequirements,
    PublishedDevice,
    RequestedDevices,
    ResourceSlice,
    TaintRule,
)
from scheduler_ext.core.intree.affinity import NodeSelectorTerm, first_untolerated
from scheduler_ext.core.intree.verdict import ClaimHosts
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.request.request import UnitRequest
from scheduler_ext.core.request.resource_names import DEVICE_CLASS_PREFIX, ResourceNames

# What is not modelled where a GPU is within reach of several nodes.
_OPEN = "devices that several nodes can reach"


class _Digest(NamedTuple):
    """The GPUs of a slice, and the names that were known then."""

    gpus: tuple[tuple[PublishedDevice, DraDevice], ...]
    names: Names


class DeviceIndex:
    """All that the API group resource.k8s.io says of GPUs. One thread at a time. Updates return the names of
    the nodes that they change; nodes that only new names change are `take_renamed`."""

    def __init__(
        self,
        compile_selectors: Compile,
        resources: ResourceNames,
        nodes: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """`nodes` returns the names of all nodes, which devices that several nodes reach can change."""
        self._nodes = nodes
        self._resources = resources
        self._pools = Pools()
        self._claims = Claims(self._pools.node_of)
        self._names = DeviceNames(compile_selectors, resources)
        self._rules: dict[str, TaintRule] = {}
        self._digests: dict[str, _Digest] = {}
        # The names under which some GPU was found.
        self._of_gpus: set[str] = set()
        # One set for all devices of the same names.
        self._same: dict[frozenset[str], frozenset[str]] = {}
        self.others: Mapping[str, Mapping[str, DeviceCount]] = {}
        """The devices that are no GPUs, by name and by node, as far as they were counted; a node that is not
        named has none."""
        self.supplies: dict[str, Supply] = {}
        """How many pods can have the devices that the `resources` of ClaimHosts stand for."""
        # The counted requests with admin access, the labels of the nodes that devices are counted for, and
        # what was found then, by request, and by claims.
        self._admin: frozenset[DeviceRequirements] = frozenset()
        self._labels: Mapping[str, Mapping[str, str]] | None = None
        self._found: dict[RequestedDevices, CandidateDevices | None] = {}
        self._hosts: dict[Hashable, Sequence[ClaimHosts]] = {}
        # Devices that several nodes reach; those with GPUs make these uncountable everywhere.
        self._has_open = False
        # Nodes that do not know the newest names, and the names that some node does not know.
        self._renamed: dict[str, None] = {}
        self._fresh: set[str] = set()

    def update_slice(self, item: ResourceSlice) -> set[str]:
        """A slice was published or changed."""
        if self._pools.get(item.name) == item:
            return set()
        self._forget(item.name)
        changed = self._pools.update(item) | self._claims.published()
        return changed | self._look_at_unplaced()

    def remove_slice(self, name: str) -> set[str]:
        self._forget(name)
        changed = self._pools.remove(name)
        return changed | self._look_at_unplaced()

    def update_class(self, item: DeviceClass) -> set[str]:
        return self._follow_classes(self._names.update_class(item, self._pools.devices))

    def remove_class(self, name: str) -> set[str]:
        return self._follow_classes(self._names.remove_class(name, self._pools.devices))

    def update_claim(self, item: Claim) -> set[str]:
        before = self._claims.get(item.uid)
        if before == item:
            return set()
        if before is not None:
            self._names.waits_no_more(before)
        if fresh := self._names.waits(item, self._pools.devices):
            self._rename(fresh)
        return self._claims.update(item)

    def remove_claim(self, uid: str) -> set[str]:
        if (item := self._claims.get(uid)) is not None:
            self._names.waits_no_more(item)
        return self._claims.remove(uid)

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

    def take_renamed(self, most: int, read: Collection[str] = ()) -> list[str]:
        """Some of the nodes that do not know the newest names yet, without those that are `read` now. At the
        next call all nodes that were returned know them."""
        if not self._renamed:
            self._fresh.clear()
        for name in read:
            self._renamed.pop(name, None)
        taken = list(islice(self._renamed, most))
        for name in taken:
            del self._renamed[name]
        return taken

    @property
    def is_renaming(self) -> bool:
        """Whether some node does not know the newest names."""
        return bool(self._renamed or self._fresh)

    def settle(self) -> None:
        """No node was read before this moment: all will know the newest names."""
        self._renamed.clear()
        self._fresh.clear()

    def slices(self) -> set[str]:
        return self._pools.names()

    def classes(self) -> set[str]:
        return self._names.classes()

    def claims(self) -> set[str]:
        return self._claims.uids()

    def rules(self) -> dict[str, TaintRule]:
        """The DeviceTaintRules by name."""
        return dict(self._rules)

    def claim(self, namespace: str, name: str) -> Claim | None:
        return self._claims.named(namespace, name)

    def all_claims(self) -> Iterable[Claim]:
        """All claims, and the templates of claims that were given."""
        return self._claims.all()

    def extended_resource(self, device_class: str) -> str | None:
        """The extended resource that a class serves."""
        return self._names.extended_resource(device_class)

    def class_of(self, resource: str) -> str | None:
        """The class that serves a resource of pods; None if it is none of DRA."""
        names = self._names.now
        return names.asks[resource].device_class if resource in names.served else None

    def resource_of(self, ask: DeviceRequirements) -> str | None:
        """The name of the resource that an ask is counted as: its own, or that of its class while some node
        does not know it, or if too many different asks are known. None if the class does not exist or has no
        GPU. Any thread may call it."""
        of_class = DEVICE_CLASS_PREFIX + ask.device_class
        is_known = ask.device_class in self._resources.device_classes
        names = self._names.now.asks
        if of_class not in names or not (is_known or of_class in self._of_gpus):
            return None
        own = class_resource(ask)
        return own if own in names and own not in self._fresh else of_class

    def claim_request(self, namespace: str, names: Iterable[str]) -> ClaimRequest:
        """The requests of a pod's claims, except of those that hold devices already. A claim that is not
        known (yet) may ask any GPU. Any thread may call it."""
        asked = together(self._asked_as(namespace, name) for name in names)
        resources = {unit.resource for unit in asked.units}
        # A copy, because the keys of a dict may change meanwhile.
        if len(resources) > 1 and any(len(resources & each) > 1 for each in tuple(self._same)):
            return asked._replace(not_modelled=(*asked.not_modelled, "several requests for the same devices"))
        return asked

    def _asked_as(self, namespace: str, name: str) -> ClaimRequest:
        claim = self.claim(namespace, name)
        return self._asked_by(claim) if claim else unknown_claim(self._any_gpu(), namespace, name)

    def demand(self, claims: Iterable[Claim]) -> ClaimDemand | None:
        """The GPUs that claims ask, whole or in parts of their memory; None if they ask nothing, something
        else, or what depends on the node."""
        gpus, parts_mib = 0, []
        for claim in claims:
            for ask, count, _, _, admin, _ in claim.requests:
                if admin:
                    continue
                if not count or not self._names.is_of_whole_gpus(ask.device_class):
                    return None
                if not ask.capacity:
                    gpus += count
                elif part_mib := memory_mib(amounts(dict(ask.capacity))):
                    parts_mib += [part_mib] * count
                else:
                    return None
        return ClaimDemand(gpus, tuple(parts_mib)) if gpus or parts_mib else None

    def known_claims(self) -> KnownClaims:
        """The requests of all claims now."""
        by_key = {claim.key: together((self._asked_by(claim),)) for claim in self._claims.all()}
        return KnownClaims(by_key, self._any_gpu(), self.problems())

    def _any_gpu(self) -> tuple[UnitRequest, ...]:
        named = sorted(self._names.now.served & self._of_gpus)
        return tuple(UnitRequest(name, 0) for name in named if name.startswith(DEVICE_CLASS_PREFIX))

    def _asked_by(self, claim: Claim) -> ClaimRequest:
        names = self._names.now
        if claim.devices is not None:
            return ClaimRequest(nodes=(claim.node,) if claim.node is not None else (), held=(claim.title,))
        units, missing, others = [], [], []
        # A choice of other devices may do, too.
        only_gpus = all(self.resource_of(each.ask) for each in claim.requests if each.choice)
        for request in claim.requests:
            ask, count, every, choice, admin, _ = request
            name, own = self.resource_of(ask), class_resource(ask)
            if admin:
                if ask not in self._admin:
                    missing.append("adminAccess")
            elif name is not None:
                units.append(
                    UnitRequest(name, count, every=every and not choice, choice=choice if only_gpus else 0)
                )
                if name != own:
                    missing.append("requirements beyond the DeviceClass")
            elif DEVICE_CLASS_PREFIX + ask.device_class not in names.asks:
                missing.append(f"DeviceClass {ask.device_class}, which is not known here,")
            elif count and own in self.others:
                others.append((own, count))
            else:
                missing.append(f"devices of DeviceClass {ask.device_class}, which are not known as GPUs,")
            if (problem := names.problem_of(own)) is not None:
                missing.append(f"a selector ({problem})")
        if units and self._has_open:
            missing.append(_OPEN)
        features = dict.fromkeys((*claim.not_modelled, *missing))
        return ClaimRequest(
            tuple(units),
            tuple(f"{feature} of {claim.title}" for feature in features),
            others=tuple(others),
            admin=sum(each.admin for each in claim.requests),
        )

    def hosts(
        self, namespace: str, names: Iterable[str], amounts: Mapping[str, Fraction]
    ) -> tuple[ClaimHosts, ...]:
        """The nodes that lack devices for these claims, and for these amounts of resources that classes
        serve: a pod gets no device twice. None are known before `count_others`."""
        if self._labels is None:
            return ()
        found = (self.claim(namespace, name) for name in names)
        waiting = [each for each in found if each is not None and each.devices is None]
        hosts = [part for claim in waiting for part in self._hosts_of(claim)]
        if len(waiting) > 1:
            hosts += self._hosts_of(*waiting)
        asks = self._names.now.asks
        served = {name: int(amount) for name, amount in amounts.items() if amount and name in asks}
        if served and (waiting or self._has_open):
            requests = tuple(RequestedDevices(asks[name], count) for name, count in sorted(served.items()))
            beside = Claim("", namespace, "", requests)
            both = self._hosts_of(*waiting, beside, is_counted=False) if waiting else ()
            # Nodes with a device plugin have other devices for these, so that no pod takes what is counted.
            more = (*self._hosts_of(beside), *both)
            hosts += [each._replace(resources=(), extended=tuple(served)) for each in more]
        return tuple(dict.fromkeys(hosts))

    def _hosts_of(self, *claims: Claim, is_counted: bool = True) -> Sequence[ClaimHosts]:
        """The nodes for one claim, or for several together, each once for equal claims; `is_counted`: the sum
        of their requests for one resource is."""
        key = (tuple((claim.requests, claim.constraints) for claim in claims), is_counted)
        if key not in self._hosts:
            counted = self._is_counted if is_counted else lambda _: False
            nodes = self._labels or ()
            if len(claims) == 1:
                parts = list(hosts_of(*claims, self._find, counted, nodes))
            else:
                parts = list(hosts_together(claims, self._find, counted, nodes))
            for part in parts:
                self.supplies.update(part.supplies)
            self._hosts[key] = tuple(part.hosts for part in parts)
        return self._hosts[key]

    def _find(self, request: RequestedDevices) -> CandidateDevices | None:
        """The devices that a request may get, remembered after `count_others`."""
        # Only these distinguish the devices.
        key = RequestedDevices(request.ask, 0, admin=request.admin)
        if key not in self._found:
            self._found[key] = self._candidates(request.ask, admin=request.admin)
        return self._found[key]

    def _is_counted(self, request: RequestedDevices) -> bool:
        """Whether the devices of a request are counted as units of a node."""
        if request.admin or self.resource_of(request.ask) is not None:
            return not (request.admin or self._has_open)
        return bool(request.devices) and class_resource(request.ask) in self.others

    def count_others(self, nodes: Mapping[str, Mapping[str, str]]) -> None:
        """Count what a running kube-scheduler counts itself, for the claims that wait and `nodes` with these
        labels: devices that are no GPUs, those for admin access, and those that meet constraints. Until then,
        and where that is not possible, `claim_request` says that they are not modelled."""
        waiting = [each for each in self._claims.all() if each.devices is None]
        self._labels = nodes
        self.others, self._admin = self._counted(waiting, self._find)

    def _counted(
        self, waiting: Iterable[Claim], find: Find
    ) -> tuple[dict[str, Mapping[str, DeviceCount]], frozenset[DeviceRequirements]]:
        """The devices of requests for no GPUs, by name and by node, and the requests with admin access, as
        far as each of their devices is known."""
        others: dict[str, Mapping[str, DeviceCount]] = {}
        admin: set[DeviceRequirements] = set()
        for request in (each for claim in waiting for each in claim.requests):
            is_other = request.devices and self.resource_of(request.ask) is None
            if not (is_other or request.admin) or (here := find(request)) is None or not here.is_exact:
                continue
            if request.admin:
                admin.add(request.ask)
                continue
            others[class_resource(request.ask)] = {
                node: total(each.serves for each in found) for node, found in here.by_node.items()
            }
        return others, frozenset(admin)

    def _candidates(self, ask: DeviceRequirements, *, admin: bool) -> CandidateDevices | None:
        """The devices that a request may get, for admin access those that are held, too (allocateDevice in
        allocator_stable.go of k8s.io/dynamic-resource-allocation). None if no slice is known."""
        names = self._names.now
        name = own if (own := class_resource(ask)) in names.asks else DEVICE_CLASS_PREFIX + ask.device_class
        if name not in names.asks or not self._pools.names():
            return None
        selectors, wanted = names.selectors[name], amounts(dict(ask.capacity))
        found: list[CandidateDevice] = []
        by_node: dict[str, list[CandidateDevice]] = {}
        reaching: dict[tuple[NodeSelectorTerm, ...] | None, list[str]] = {}
        is_exact, several = name == own, False
        for item in (item for pool in self._pools.all_pools() for item in self._pools.complete(pool)):
            for device in item.devices:
                admitted = admits(selectors, device.facts)
                if admitted is False:
                    continue
                is_exact = is_exact and admitted is True and not device.consumes
                id = DeviceId(item.driver, item.pool, device.name)
                serves = self._serves(id, device, wanted)
                if serves is None:
                    continue
                if admin and serves.all:
                    # A device that claims share has to have what is asked left.
                    left = serves.free or not device.facts.allow_multiple_allocations
                    serves = DeviceCount(MANY if left else 0, MANY)
                rules = [rule for rule in self._rules.values() if rule.is_about(id)]
                if first_untolerated(_tainted(device, item.pool, rules).taints, ask.tolerations) is not None:
                    serves = serves._replace(free=0)
                found.append(CandidateDevice(device, serves))
                here = [item.node] if item.node is not None else reaching.get(device.reach)
                if here is None:
                    here = reaching[device.reach] = self._reaching(device.reach)
                several |= item.node is None
                for node in here:
                    by_node.setdefault(node, []).append(found[-1])
        return CandidateDevices(found, by_node, is_exact and not several, several)

    def _reaching(self, terms: tuple[NodeSelectorTerm, ...] | None) -> list[str]:
        """The nodes that meet one of the terms; all without any."""
        return [
            name
            for name, labels in (self._labels or {}).items()
            if terms is None or any(term.matches(labels, {"metadata.name": name}) for term in terms)
        ]

    def _serves(self, id: DeviceId, device: PublishedDevice, wanted: Mapping[str, int]) -> DeviceCount | None:
        """How many claims that want so much of its capacities a device serves; None if it serves none."""
        shared = device.facts.allow_multiple_allocations
        if not (shared or wanted):
            return DeviceCount(int(not self._claims.holds(id)), 1)
        capacity = amounts(device.facts.capacity)
        taken = taken_amounts(capacity, device.policies, wanted)
        if taken is None:
            return None
        if not shared:
            return DeviceCount(int(not self._claims.holds(id)), 1)
        held = self._claims.consumed(id)
        return DeviceCount(claims_served(capacity, taken, held), claims_served(capacity, taken, {}))

    def problem(self, resource: str) -> str | None:
        """Why devices of a resource are unknown; None if all are known. Any thread may call it."""
        names = self._names.now
        if (problem := names.problem_of(resource)) is not None:
            return f"a selector ({problem})"
        return _OPEN if self._has_open and resource in names.asks else None

    def problems(self) -> dict[str, str]:
        """The problem of each resource that has one."""
        found = {name: self.problem(name) for name in self._names.now.selectors}
        return {name: problem for name, problem in found.items() if problem}

    def pool_problems(self) -> list[str]:
        """Why GPUs in slices are not counted, a line for each pool."""
        is_gpu = self._names.now.is_gpu
        found = (
            (self._pools.problem(pool), self._pools.newest(pool), ", ".join(nodes))
            for pool, nodes in self._pools.nodes_by_pool().items()
        )
        return [
            f"{nodes or 'several nodes'}: {problem}; its GPUs are not counted"
            for problem, slices, nodes in found
            if problem is not None and any(is_gpu(each.facts) for item in slices for each in item.devices)
        ]

    def has_devices(self, node: str) -> bool:
        """Whether slices list devices of a node, in complete pools."""
        return any(self._pools.complete(pool) for pool in self._pools.on_node(node))

    def claims_on(self, node: str) -> tuple[Claim, ...]:
        """The claims that hold devices of a node, by their names."""
        return tuple(sorted(self._claims.on_node(node), key=lambda claim: claim.key))

    def node(self, name: str) -> NodeDevices | None:
        """The devices of a node, of the newest generation of its complete pools, and those that claims hold
        though no slice lists them any more. None if DRA has nothing there."""
        claims, pools = self._claims.on_node(name), self._pools.on_node(name)
        if not pools and not claims and not self._has_open:
            return None
        devices: list[DraDevice] = []
        counters: list[tuple[tuple[str, str, str], int]] = []
        first: PublishedDevice | None = None
        for pool in pools:
            for item in self._pools.complete(pool):
                counters += [((item.pool, *key), amount) for key, amount in item.counters.items()]
                if item.node == name:
                    devices += (gpu for _, gpu in self._digest(item).gpus)
                    first = first or next(iter(item.devices), None)
        known = {device.id for device in devices}
        for claim in claims:
            for held in claim.devices or ():
                if held.id not in known and (former := self._last_known(held.id)) is not None:
                    known.add(held.id)
                    devices.append(gpu_device(former, held.id.pool, frozenset()))
        driver, cuda = driver_versions(first) if first is not None else (None, None)
        names = self._names.now
        open_names = frozenset(names.asks) if self._has_open else frozenset()
        if not devices and not claims and not open_names:
            return None
        return NodeDevices(
            tuple(devices), names.asks, names.served, open_names, tuple(counters), driver, cuda
        )

    def _digest(self, item: ResourceSlice) -> _Digest:
        found, names = self._digests.get(item.name), self._names.now
        if found is not None and found.names is names:
            return found
        if found is None:
            rules = [rule for rule in self._rules.values() if rule.may_be_about(item)]
            gpus = tuple(
                (
                    device,
                    gpu_device(
                        _tainted(device, item.pool, rules),
                        item.pool,
                        self._one(names.admitting(device.facts)),
                    ),
                )
                for device in item.devices
                if names.is_gpu(device.facts)
            )
        else:
            before = found.names
            gpus = tuple(
                (device, replace(gpu, resources=self._one(resources)))
                for device, gpu in found.gpus
                for resources in (names.renamed(gpu.resources, before, device.facts),)
            )
        digest = self._digests[item.name] = _Digest(gpus, names)
        self._of_gpus.update(*(gpu.resources for _, gpu in gpus))
        return digest

    def _one(self, resources: frozenset[str]) -> frozenset[str]:
        return self._same.setdefault(resources, resources)

    def _last_known(self, id: DeviceId) -> PublishedDevice | None:
        """A device that no complete pool has: from a slice of its pool, else as it was last published."""
        is_gpu = self._names.now.is_gpu
        published = next((each for each in self._pools.named(id) if is_gpu(each.facts)), None)
        former = published or self._claims.former(id)
        return former if former is not None and is_gpu(former.facts) else None

    def _forget(self, name: str) -> None:
        """A slice is about to change, or to go; its devices stay known while claims hold them."""
        item = self._pools.get(name)
        if item is None:
            return
        self._digests.pop(name, None)
        for device in item.devices:
            self._claims.unpublished(DeviceId(item.driver, item.pool, device.name), device)

    def _tainted_by(self, rule: TaintRule) -> set[str]:
        """Forget what was known of the devices that a rule may be about. Returns their nodes."""
        nodes: set[str] = set()
        for item in self._pools.all():
            if rule.may_be_about(item):
                self._digests.pop(item.name, None)
                if item.node is not None:
                    nodes.add(item.node)
        return nodes

    def _look_at_unplaced(self) -> set[str]:
        """Find out whether a GPU is within reach of several nodes. Returns all nodes if that changed."""
        before, is_gpu = self._has_open, self._names.now.is_gpu
        self._has_open = any(is_gpu(each.facts) for item in self._pools.unplaced() for each in item.devices)
        return set(self._nodes()) if self._has_open != before else set()

    def _follow_classes(self, changed: bool) -> set[str]:
        if not changed:
            return set()
        self._digests.clear()
        self._of_gpus &= self._names.now.asks.keys()
        self._same.clear()
        return self._look_at_unplaced() | set(self._nodes() if self._has_open else self._pools.nodes())

    def _rename(self, fresh: frozenset[str]) -> None:
        """Claims ask more: nodes are to learn these names."""
        nodes = self._nodes() if self._has_open else self._pools.nodes()
        self._renamed |= dict.fromkeys(sorted(nodes))
        if self._renamed:
            self._fresh |= fresh


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
    units = (*pod.request.units, *devices.claim_request(pod.namespace, pending.claims).units)
    return replace(pending, pod=replace(pod, request=replace(pod.request, units=units)))
