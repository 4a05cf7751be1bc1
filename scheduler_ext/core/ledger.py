"""Who holds what on which node: the promises of GPU memory, from Assume to the end of the pod.

    pod ── assume ──► Assumed ── pod_seen ──► Confirmed ── pod_gone ──► departed ── next report ──► nothing
                         └────── forget ──► nothing

A uid that is gone never comes back, whatever is heard of it late; a pod of the same name is another pod. A
bound pod is never unbound, so that an older word on it, from before its binding, changes nothing.

A claim is an assumption as it is written down for all extenders: it counts until its Binding is known to have
succeeded, or to be able to no longer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from scheduler_ext.core.cause import Cause
from scheduler_ext.core.node import BoundPod

# A report that was received this long after a pod had gone was read after its last process had.
_READ_BEFORE_S = 2.0
# Pods that are gone, by uid: a list of pods that was on its way meanwhile must not bring one back.
_GONE_REMEMBERED = 20_000


@dataclass(frozen=True, slots=True)
class Claim:
    """What a Binding that may be on its way would hold; it can succeed at this version of its pod only."""

    pod: BoundPod
    resource_version: str

    @property
    def key(self) -> tuple[str, str]:
        """What tells one from another: a second Binding of a pod is of another version of it."""
        return self.pod.uid, self.resource_version


@dataclass(frozen=True, slots=True)
class NodePods:
    """The pods of one node: ``holding`` are bound or about to be (the uids in ``assumed``), and those that
    ``departed`` since the last report; ``nominated`` ones are to come."""

    holding: tuple[BoundPod, ...] = ()
    assumed: frozenset[str] = frozenset()
    nominated: tuple[BoundPod, ...] = ()


NO_PODS = NodePods()


@dataclass(slots=True)
class _Account:
    """One node's pods, by uid."""

    confirmed: dict[str, BoundPod] = field(default_factory=dict)
    assumed: dict[str, BoundPod] = field(default_factory=dict)
    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    settled: set[tuple[str, str]] = field(default_factory=set)
    nominated: dict[str, BoundPod] = field(default_factory=dict)
    departed: dict[str, tuple[BoundPod, float]] = field(default_factory=dict)

    def is_empty(self) -> bool:
        return not any(
            (self.confirmed, self.assumed, self.claims, self.settled, self.nominated, self.departed)
        )

    def pods(self) -> NodePods:
        claimed = {claim.pod.uid: claim.pod for claim in self.claims.values()}
        # What we assume is newer than what we wrote of it.
        assumed = claimed | self.assumed
        holding = {uid: pod for uid, (pod, _) in self.departed.items()} | assumed | self.confirmed
        return NodePods(
            tuple(holding[uid] for uid in sorted(holding)),
            frozenset(assumed),
            tuple(self.nominated[uid] for uid in sorted(self.nominated)),
        )


class Ledger:
    """The pods of every node. ``touched`` is told of each node where something changed, and why."""

    def __init__(self, touched: Callable[[str, Cause], None]) -> None:
        self._touched = touched
        self._accounts: dict[str, _Account] = {}
        self._confirmed_on: dict[str, str] = {}
        # Where a pod is assumed, claimed or nominated.
        self._promised_on: dict[str, set[str]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, node: str) -> bool:
        return node in self._accounts

    def pods(self, node: str) -> NodePods:
        """What is promised on a node."""
        account = self._accounts.get(node)
        return account.pods() if account is not None else NO_PODS

    def claims(self) -> list[tuple[str, Claim]]:
        """Every claim whose end is not known yet, with its node."""
        return [
            (node, claim) for node, account in self._accounts.items() for claim in account.claims.values()
        ]

    def confirmed(self) -> dict[str, str]:
        """The node of every bound pod, by uid."""
        return dict(self._confirmed_on)

    def knows_end_of(self, uid: str) -> bool:
        """Whether a pod is bound or gone, so that it waits for nothing any more."""
        return uid in self._gone or uid in self._confirmed_on

    def pod_seen(self, pod: BoundPod, node: str) -> None:
        """A pod is bound to a node, whoever bound it: Confirm."""
        if pod.uid in self._gone:
            return
        before = self._confirmed_on.get(pod.uid)
        if before == node and self._accounts[node].confirmed[pod.uid] == pod:
            return
        if before is not None and before != node:
            self._unconfirm(pod.uid)
            self._drop_if_empty(before)
        self._confirmed_on[pod.uid] = node
        self._account(node).confirmed[pod.uid] = pod
        self._touched(node, Cause.POD)
        # Whatever else it was promised can no longer come true.
        self._settle(pod.uid)

    def pod_gone(self, uid: str, now: float, waited: bool = False) -> str | None:
        """A pod is gone, or has finished and holds nothing any more; the node that it was on.

        One that was never heard of, not even as one that ``waited``, leaves no trace: most ask no GPU.
        """
        if not waited and uid not in self._confirmed_on and uid not in self._promised_on:
            return None
        self._gone[uid] = None
        if len(self._gone) > _GONE_REMEMBERED:
            self._gone.popitem(last=False)
        node = None
        if uid in self._confirmed_on:
            node, pod = self._unconfirm(uid)
            self._account(node).departed[uid] = (replace(pod, departed=True), now)
        self._settle(uid)
        return node

    def report_received(self, node: str, received_at: float) -> None:
        """A report of a node, in which those who left before are no more."""
        account = self._accounts.get(node)
        if account is None:
            return
        for uid, (_, gone_at) in list(account.departed.items()):
            if gone_at + _READ_BEFORE_S <= received_at:
                del account.departed[uid]
                self._touched(node, Cause.REPORT)
        self._drop_if_empty(node)

    def assume(self, pod: BoundPod, node: str) -> None:
        """A Binding of the pod to the node is about to be sent."""
        if pod.uid in self._gone or pod.uid in self._confirmed_on:
            return
        self._account(node).assumed[pod.uid] = pod
        self._promised_on.setdefault(pod.uid, set()).add(node)
        self._touched(node, Cause.POD)

    def forget(self, uid: str, node: str) -> None:
        """The Binding of a pod to a node was not, and can no longer succeed."""
        account = self._accounts.get(node)
        if account is not None and account.assumed.pop(uid, None) is not None:
            self._touched(node, Cause.CLAIM)
            self._drop_if_empty(node)

    def claims_seen(self, node: str, claims: Iterable[Claim]) -> None:
        """All that is written down of Bindings to a node."""
        written = {claim.key: claim for claim in claims}
        account = self._account(node)
        # What was settled stays so for as long as it is still written there.
        account.settled &= written.keys()
        there = {
            key: claim
            for key, claim in written.items()
            if key not in account.settled and key[0] not in self._gone and key[0] not in self._confirmed_on
        }
        if there != account.claims:
            account.claims = there
            for uid, _ in there:
                self._promised_on.setdefault(uid, set()).add(node)
            self._touched(node, Cause.CLAIM)
        self._drop_if_empty(node)

    def claim_settled(self, node: str, key: tuple[str, str]) -> None:
        """A claim's Binding can no longer succeed."""
        account = self._accounts.get(node)
        if account is not None and account.claims.pop(key, None) is not None:
            account.settled.add(key)
            self._touched(node, Cause.CLAIM)

    def nominate(self, pod: BoundPod, node: str | None) -> None:
        """A pod waits for others to leave a node; None: for none any more."""
        for other in list(self._promised_on.get(pod.uid, ())):
            account = self._accounts.get(other)
            if other != node and account is not None and account.nominated.pop(pod.uid, None) is not None:
                self._touched(other, Cause.CLAIM)
                self._drop_if_empty(other)
        if node is None or pod.uid in self._gone or pod.uid in self._confirmed_on:
            return
        if self._account(node).nominated.get(pod.uid) != pod:
            self._account(node).nominated[pod.uid] = pod
            self._promised_on.setdefault(pod.uid, set()).add(node)
            self._touched(node, Cause.CLAIM)

    def _unconfirm(self, uid: str) -> tuple[str, BoundPod]:
        node = self._confirmed_on.pop(uid)
        pod = self._accounts[node].confirmed.pop(uid)
        self._touched(node, Cause.POD)
        return node, pod

    def _settle(self, uid: str) -> None:
        """Nothing is promised to a pod that is bound or gone."""
        for node in self._promised_on.pop(uid, ()):
            account = self._accounts.get(node)
            if account is None:
                continue
            account.assumed.pop(uid, None)
            account.nominated.pop(uid, None)
            account.claims = {key: claim for key, claim in account.claims.items() if key[0] != uid}
            self._touched(node, Cause.CLAIM if self._confirmed_on.get(uid) != node else Cause.POD)
            self._drop_if_empty(node)

    def _account(self, node: str) -> _Account:
        return self._accounts.setdefault(node, _Account())

    def _drop_if_empty(self, node: str) -> None:
        account = self._accounts.get(node)
        if account is not None and account.is_empty():
            del self._accounts[node]
