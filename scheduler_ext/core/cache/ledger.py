"""The pods of each node: GPU memory is promised from Assume to the end of the pod.

    pod ── assume ──► Assumed ── confirm ──► Confirmed ── remove_pod ──► departed ── next report ──► nothing
                         └────── forget ──► nothing

A uid that is gone never comes back, whatever arrives late; a new pod of the same name has another uid. A
bound pod is never unbound, so a message from before its binding changes nothing. An intent is an assumption
that is written down for all extenders. It counts until its Binding is known to have succeeded or to be unable
to succeed. A pod may have several intents, on one node or on many; at most one of them comes true."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from operator import itemgetter

from scheduler_ext.core.cache.intent import Intent
from scheduler_ext.core.cache.kept_places import KeptPlace, KeptPlaces
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import BoundPod

# A report received this long after a pod has gone was read after the pod's last process ended.
_READ_BEFORE_S = 2.0
# Uids of pods that are gone: a list that was in flight at that time must not bring one back.
_GONE_REMEMBERED = 20_000


class Cause(Flag):
    """What changed on a node. kube-scheduler sees changes of Nodes and pods by itself, and no others."""

    NODE = auto()
    REPORT = auto()
    POD = auto()
    AGE = auto()
    PROMISE = auto()


@dataclass(frozen=True, slots=True)
class NodePods:
    """The pods of one node. `holding`: bound, about to be bound (their uids are in `assumed`), or
    departed since the last report. `nominated`: waiting for victims to leave the node. `planned`: a planner
    keeps a place for them."""

    holding: tuple[BoundPod, ...] = ()
    assumed: frozenset[str] = frozenset()
    nominated: tuple[BoundPod, ...] = ()
    planned: tuple[BoundPod, ...] = ()

    def counted_once(self) -> tuple[BoundPod, ...]:
        """The pods that hold; several Bindings of one pod for the same devices count once."""
        if not self.assumed:
            return self.holding
        once: dict[tuple[str, frozenset[tuple[str, tuple[str, ...]]]], BoundPod] = {}
        for pod in self.holding:
            once.setdefault((pod.uid, frozenset(pod.devices.items())), pod)
        return tuple(once.values())


NO_PODS = NodePods()


@dataclass(slots=True)
class _NodeAccount:
    """One node's pods by uid, and the Bindings in flight by the key of their intent."""

    confirmed: dict[str, BoundPod] = field(default_factory=dict)
    assumed: dict[tuple[str, str], Intent] = field(default_factory=dict)
    intents: dict[tuple[str, str], Intent] = field(default_factory=dict)
    # Intents that are settled, and may still be written in the reservation: the extender that wrote each.
    settled: dict[tuple[str, str], str] = field(default_factory=dict)
    nominated: dict[str, BoundPod] = field(default_factory=dict)
    departed: dict[str, tuple[BoundPod, float]] = field(default_factory=dict)

    def pods(self) -> NodePods:
        bound = self.confirmed | {uid: pod for uid, (pod, _) in self.departed.items()}
        pods = [bound[uid] for uid in sorted(bound)]
        for key, latest in sorted((self.intents | self.assumed).items(), key=itemgetter(0)):
            pods.append(latest.pod)
            written = self.intents.get(key)
            # Another extender chose another GPU for the same pod: either Binding may succeed.
            if written is not None and written.pod.devices != latest.pod.devices:
                pods.append(written.pod)
        return NodePods(
            tuple(pods),
            frozenset(uid for uid, _ in (*self.intents, *self.assumed)),
            tuple(self.nominated[uid] for uid in sorted(self.nominated)),
        )


_EMPTY = _NodeAccount()


class Ledger:
    """The pods of every node, and which nodes changed since `take_changes`."""

    def __init__(self) -> None:
        self._accounts: dict[str, _NodeAccount] = {}
        self._confirmed_on: dict[str, str] = {}
        # The nodes on which a pod is assumed, written down or nominated.
        self._promised_on: dict[str, set[str]] = {}
        self._kept = KeptPlaces()
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._changed: dict[str, Cause] = {}

    def __contains__(self, node: str) -> bool:
        return node in self._accounts

    @property
    def has_changes(self) -> bool:
        return bool(self._changed)

    def unpublished(self) -> list[str]:
        """The nodes that have changed since the changes were taken last."""
        return list(self._changed)

    def take_changes(self) -> dict[str, Cause]:
        """The nodes that changed since the last call, and why."""
        changed, self._changed = self._changed, {}
        return changed

    def pods_on(self, node: str) -> NodePods:
        pods = self._accounts.get(node, _EMPTY).pods()
        # A pod that is being bound keeps its place by that.
        planned = tuple(pod for pod in self._kept.on(node) if pod.uid not in pods.assumed)
        return replace(pods, planned=planned) if planned else pods

    def assumed(self) -> list[tuple[str, Intent]]:
        """Every promise whose outcome is not known yet, with its node."""
        return [
            (node, intent)
            for node, account in self._accounts.items()
            for intent in (account.intents | account.assumed).values()
        ]

    def intents_on(self, node: str) -> dict[tuple[str, str], Intent]:
        """The intents in a node's reservation whose outcome is not known yet."""
        return dict(self._accounts.get(node, _EMPTY).intents)

    def assumed_on(self, node: str) -> dict[tuple[str, str], Intent]:
        """The Bindings to a node that this extender was about to post and whose outcome is not known."""
        return dict(self._accounts.get(node, _EMPTY).assumed)

    def confirmed(self) -> set[str]:
        """The uids of all bound pods, finished ones included."""
        return set(self._confirmed_on)

    def holding(self) -> dict[str, str]:
        """The node of every bound pod that has not finished, by uid."""
        return {
            uid: node for uid, node in self._confirmed_on.items() if self._accounts[node].confirmed[uid].holds
        }

    def holds(self, uid: str) -> bool:
        node = self._confirmed_on.get(uid)
        return node is not None and self._accounts[node].confirmed[uid].holds

    def node_of(self, uid: str) -> str | None:
        return self._confirmed_on.get(uid)

    def is_gone(self, uid: str) -> bool:
        return uid in self._gone

    def has_ended(self, uid: str) -> bool:
        """Whether a pod is bound or gone, and so waits for no node."""
        return uid in self._gone or uid in self._confirmed_on

    def confirm(self, pod: BoundPod, node: str, now: float) -> None:
        """A pod is bound to a node, by any binder: Confirm. A finished pod holds nothing there."""
        if pod.uid in self._gone:
            return
        before = self._confirmed_on.get(pod.uid)
        if before == node:
            known = self._accounts[node].confirmed[pod.uid]
            # A finished pod never runs again: a message that says so is older.
            if known == pod or (known.finished and not pod.finished):
                return
            if pod.finished and not known.finished:
                self._accounts[node].departed[pod.uid] = (replace(pod, departed=True), now)
        if before is not None and before != node:
            self._unconfirm(pod.uid)
        self._confirmed_on[pod.uid] = node
        self._account(node).confirmed[pod.uid] = pod
        self._touch(node, Cause.POD)
        # None of its other promises can come true now.
        self._settle(pod.uid)

    def remove_pod(self, uid: str, now: float, waited: bool = False) -> str | None:
        """A pod is gone, or has finished and holds nothing; returns the node that it was on. A pod that is
        not known, not even as one that `waited`, leaves no trace: most pods ask no GPU."""
        if not (waited or uid in self._confirmed_on or uid in self._promised_on or uid in self._kept):
            return None
        self._gone[uid] = None
        if len(self._gone) > _GONE_REMEMBERED:
            self._gone.popitem(last=False)
        node = None
        if uid in self._confirmed_on:
            node, pod = self._unconfirm(uid)
            # A finished pod departed when it finished.
            self._account(node).departed.setdefault(uid, (replace(pod, departed=not pod.finished), now))
        self._settle(uid)
        return node

    def report_received(self, node: str, report: Report | None, received_at: float) -> None:
        """A report of a node: use of pods that departed before it no longer counts. It may name them as
        holders for a while: the agent's last answer from the kubelet may be a minute old."""
        account = self._accounts.get(node, _EMPTY)
        for uid, (pod, gone_at) in list(account.departed.items()):
            if report is not None and gone_at + _READ_BEFORE_S > received_at:
                continue
            if report is not None and uid not in account.confirmed and any(map(pod.is_on, report.devices)):
                account.departed[uid] = (replace(pod, departed=False, finished=True), gone_at)
            else:
                del account.departed[uid]
            self._touch(node, Cause.REPORT)

    def assume(self, intent: Intent, node: str) -> None:
        """A Binding of the pod to the node is about to be posted: Assume. A place that is kept there stays:
        after a Binding that failed, the pod may still use room that is kept for others."""
        if not self.has_ended(intent.uid):
            if (place := self._kept.of(intent.uid)) is not None and place.node != node:
                self.unplan(intent.uid)
            self._account(node).assumed[intent.key] = intent
            self._promised_on.setdefault(intent.uid, set()).add(node)
            self._touch(node, Cause.POD)

    def forget(self, key: tuple[str, str], node: str) -> None:
        """The Binding of a pod to a node did not happen and can no longer succeed: Forget, or Expire."""
        account = self._accounts.get(node, _EMPTY)
        assumed, written = account.assumed.pop(key, None), account.intents.pop(key, None)
        latest = written or assumed
        if latest is not None:
            # Also if it is not known to be written: the write of another bind may be in flight with it.
            account.settled[key] = latest.extender
            self._touch(node, Cause.PROMISE)

    def withdraw(self, key: tuple[str, str], node: str) -> None:
        """Drop an assumption whose Binding is not going to be posted; its written intent stays."""
        if self._accounts.get(node, _EMPTY).assumed.pop(key, None) is not None:
            self._touch(node, Cause.PROMISE)

    def update_intents(self, node: str, intents: Iterable[Intent], ours: bool = False) -> None:
        """All intents in a node's reservation; `ours`: this extender has just written them itself."""
        written = {intent.key: intent for intent in intents}
        account = self._account(node)
        # A settled intent stays settled while the same extender has it written: another extender may post the
        # Binding again, and so may this one, once it assumes it again.
        account.settled = {
            key: extender
            for key, extender in account.settled.items()
            if key in written and written[key].extender == extender and not (ours and key in account.assumed)
        }
        there = {
            key: intent
            for key, intent in written.items()
            if key not in account.settled and not self.has_ended(intent.uid)
        }
        if there != account.intents:
            account.intents = there
            for uid, _ in there:
                self._promised_on.setdefault(uid, set()).add(node)
            self._touch(node, Cause.PROMISE)
        self._drop_if_empty(node)

    def nominate(self, pod: BoundPod, node: str | None) -> None:
        """A pod waits for victims to leave a node; None: the pod is nominated for no node."""
        for other in self._promised_on.get(pod.uid, ()):
            nominated = self._accounts.get(other, _EMPTY).nominated
            if other != node and nominated.pop(pod.uid, None) is not None:
                self._touch(other, Cause.PROMISE)
        if node is None or self.has_ended(pod.uid):
            return
        if self._account(node).nominated.get(pod.uid) != pod:
            self._account(node).nominated[pod.uid] = pod
            self._promised_on.setdefault(pod.uid, set()).add(node)
            self._touch(node, Cause.PROMISE)

    def plan(self, pod: BoundPod, node: str, until: float, *, written: bool = False) -> None:
        """A planner keeps a place for a waiting pod until this time, and no other. `written`: its status
        shows that."""
        if not self.has_ended(pod.uid):
            for changed in self._kept.keep(KeptPlace(pod, node, until, written)):
                self._touch(changed, Cause.PROMISE)

    def unplan(self, uid: str) -> None:
        """No place is kept for a pod."""
        for changed in self._kept.drop(uid):
            self._touch(changed, Cause.PROMISE)

    def assumed_node(self, uid: str) -> str | None:
        """The node of a Binding of the pod that is in flight."""
        for node in self._promised_on.get(uid, ()):
            account = self._accounts.get(node, _EMPTY)
            if any(key[0] == uid for key in (account.intents | account.assumed)):
                return node
        return None

    def kept(self, uid: str) -> KeptPlace | None:
        """The planned place of a pod."""
        return self._kept.of(uid)

    def all_kept(self) -> list[KeptPlace]:
        """Every planned place."""
        return list(self._kept)

    def expire_plans(self, now: float) -> None:
        """End the planned places whose time is over."""
        for uid in self._kept.over(now):
            self.unplan(uid)

    def _touch(self, node: str, cause: Cause) -> None:
        self._changed[node] = self._changed.get(node, cause) | cause
        self._drop_if_empty(node)

    def _unconfirm(self, uid: str) -> tuple[str, BoundPod]:
        node = self._confirmed_on.pop(uid)
        pod = self._accounts[node].confirmed.pop(uid)
        self._touch(node, Cause.POD)
        return node, pod

    def _settle(self, uid: str) -> None:
        """Drop every promise to a pod that is bound or gone."""
        self.unplan(uid)
        for node in self._promised_on.pop(uid, ()):
            account = self._accounts.get(node)
            if account is None:
                continue
            account.nominated.pop(uid, None)
            for intents in (account.assumed, account.intents):
                for key in [key for key in intents if key[0] == uid]:
                    del intents[key]
            self._touch(node, Cause.PROMISE if self._confirmed_on.get(uid) != node else Cause.POD)

    def _account(self, node: str) -> _NodeAccount:
        return self._accounts.setdefault(node, _NodeAccount())

    def _drop_if_empty(self, node: str) -> None:
        if self._accounts.get(node) == _EMPTY:
            del self._accounts[node]
