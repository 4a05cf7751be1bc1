"""Who holds what on which node: the promises of GPU memory, from Assume to the end of the pod.

    pod ── assume ──► Assumed ── pod_seen ──► Confirmed ── pod_gone ──► departed ── next report ──► nothing
                         └────── forget ──► nothing

A uid that is gone never comes back, whatever is heard of it late; a pod of the same name is another pod. A
bound pod is never unbound, so that an older word on it, from before its binding, changes nothing.

An intent is an assumption as it is written down for all extenders: it counts until its Binding is known to
have succeeded, or to be able to no longer. A pod may have several, on one node or on many; at most one comes
true.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from operator import itemgetter

from scheduler_ext.core.cache.change_cause import Cause
from scheduler_ext.core.cache.intent import Intent
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import BoundPod

# A report that was received this long after a pod had gone was read after its last process had.
_READ_BEFORE_S = 2.0
# Pods that are gone, by uid: a list of pods that was on its way meanwhile must not bring one back.
_GONE_REMEMBERED = 20_000


@dataclass(frozen=True, slots=True)
class NodePods:
    """The pods of one node: ``holding`` are bound or about to be (the uids in ``assumed``), and those that
    ``departed`` since the last report; ``nominated`` ones are to come."""

    holding: tuple[BoundPod, ...] = ()
    assumed: frozenset[str] = frozenset()
    nominated: tuple[BoundPod, ...] = ()

    def counted_once(self) -> tuple[BoundPod, ...]:
        """The pods that hold; several Bindings of one pod for the same devices count once, as at most one of
        them comes true."""
        if not self.assumed:
            return self.holding
        once: dict[tuple[str, frozenset[tuple[str, tuple[str, ...]]]], BoundPod] = {}
        for pod in self.holding:
            once.setdefault((pod.uid, frozenset(pod.devices.items())), pod)
        return tuple(once.values())


NO_PODS = NodePods()


@dataclass(slots=True)
class _Account:
    """One node's pods by uid, and what Bindings would hold that may be on their way."""

    confirmed: dict[str, BoundPod] = field(default_factory=dict)
    assumed: dict[tuple[str, str], Intent] = field(default_factory=dict)
    intents: dict[tuple[str, str], Intent] = field(default_factory=dict)
    # Of intents that are written still, though their end is known: whose they were.
    settled: dict[tuple[str, str], str] = field(default_factory=dict)
    nominated: dict[str, BoundPod] = field(default_factory=dict)
    departed: dict[str, tuple[BoundPod, float]] = field(default_factory=dict)

    def is_empty(self) -> bool:
        return not any(
            (self.confirmed, self.assumed, self.intents, self.settled, self.nominated, self.departed)
        )

    def pods(self) -> NodePods:
        bound = self.confirmed | {uid: pod for uid, (pod, _) in self.departed.items()}
        pods = [bound[uid] for uid in sorted(bound)]
        for key, latest in sorted((self.intents | self.assumed).items(), key=itemgetter(0)):
            pods.append(latest.pod)
            written = self.intents.get(key)
            # Another extender chose another GPU for the same pod: either may come true.
            if written is not None and written.pod.devices != latest.pod.devices:
                pods.append(written.pod)
        return NodePods(
            tuple(pods),
            frozenset(uid for uid, _ in (*self.intents, *self.assumed)),
            tuple(self.nominated[uid] for uid in sorted(self.nominated)),
        )


class Ledger:
    """The pods of every node. ``touched`` is told of each node where something changed, and why."""

    def __init__(self, touched: Callable[[str, Cause], None]) -> None:
        self._touched = touched
        self._accounts: dict[str, _Account] = {}
        self._confirmed_on: dict[str, str] = {}
        # Where a pod is assumed, written down or nominated.
        self._promised_on: dict[str, set[str]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, node: str) -> bool:
        return node in self._accounts

    def pods(self, node: str) -> NodePods:
        """What is promised on a node."""
        account = self._accounts.get(node)
        return account.pods() if account is not None else NO_PODS

    def cpu_milli(self, node: str) -> int:
        """The CPU that these ask of a node together."""
        return sum(pod.cpu_milli for pod in self.pods(node).holding if pod.holds)

    def assumed(self) -> list[tuple[str, Intent]]:
        """Every promise whose end is not known yet, with its node."""
        return [
            (node, intent)
            for node, account in self._accounts.items()
            for intent in (account.intents | account.assumed).values()
        ]

    def intents_on(self, node: str) -> dict[tuple[str, str], Intent]:
        """What is written down of Bindings to a node whose end is not known yet."""
        account = self._accounts.get(node)
        return dict(account.intents) if account is not None else {}

    def assumed_on(self, node: str) -> dict[tuple[str, str], Intent]:
        """Bindings to a node that were about to be sent and whose end is not known."""
        account = self._accounts.get(node)
        return dict(account.assumed) if account is not None else {}

    def confirmed(self) -> set[str]:
        """The uids of all bound pods, finished ones among them."""
        return set(self._confirmed_on)

    def holding(self) -> dict[str, str]:
        """The node of every bound pod that has not finished, by uid."""
        return {
            uid: node for uid, node in self._confirmed_on.items() if self._accounts[node].confirmed[uid].holds
        }

    def holds(self, uid: str) -> bool:
        """Whether a pod is bound and has not finished."""
        node = self._confirmed_on.get(uid)
        return node is not None and self._accounts[node].confirmed[uid].holds

    def node_of(self, uid: str) -> str | None:
        """Where a pod is bound; None when it is not."""
        return self._confirmed_on.get(uid)

    def is_gone(self, uid: str) -> bool:
        """Whether a pod was heard of and is no more."""
        return uid in self._gone

    def knows_end_of(self, uid: str) -> bool:
        """Whether a pod is bound or gone, so that it waits for nothing any more."""
        return uid in self._gone or uid in self._confirmed_on

    def pod_seen(self, pod: BoundPod, node: str, now: float) -> None:
        """A pod is bound to a node, whoever bound it: Confirm. One that has finished holds nothing there."""
        if pod.uid in self._gone:
            return
        before = self._confirmed_on.get(pod.uid)
        if before == node:
            known = self._accounts[node].confirmed[pod.uid]
            # One that has finished never runs again: what says so was read before.
            if known == pod or (known.finished and not pod.finished):
                return
            if pod.finished and not known.finished:
                self._accounts[node].departed[pod.uid] = (replace(pod, departed=True), now)
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
            # One that had finished left when it did.
            self._account(node).departed.setdefault(uid, (replace(pod, departed=not pod.finished), now))
        self._settle(uid)
        return node

    def report_received(self, node: str, report: Report | None, received_at: float) -> None:
        """A report of a node, which no longer counts what those used who left before; None: there is none.

        It may go on naming them for a while as those who hold a GPU: kubelet's older releases do, and the
        agent's last answer from kubelet may be a minute old.
        """
        account = self._accounts.get(node)
        if account is None:
            return
        for uid, (pod, gone_at) in list(account.departed.items()):
            if report is not None and gone_at + _READ_BEFORE_S > received_at:
                continue
            if report is not None and uid not in account.confirmed and _is_named(pod, report):
                account.departed[uid] = (replace(pod, departed=False, finished=True), gone_at)
            else:
                del account.departed[uid]
            self._touched(node, Cause.REPORT)
        self._drop_if_empty(node)

    def assume(self, intent: Intent, node: str) -> None:
        """A Binding of the pod to the node is about to be sent."""
        uid = intent.pod.uid
        if not self.knows_end_of(uid):
            self._account(node).assumed[intent.key] = intent
            self._promised_on.setdefault(uid, set()).add(node)
            self._touched(node, Cause.POD)

    def forget(self, key: tuple[str, str], node: str) -> None:
        """The Binding of a pod to a node was not, and can no longer succeed: Forget, or Expire."""
        account = self._accounts.get(node)
        if account is None:
            return
        assumed, written = account.assumed.pop(key, None), account.intents.pop(key, None)
        if written is not None:
            account.settled[key] = written.extender
        if assumed is not None or written is not None:
            self._touched(node, Cause.PROMISE)
            self._drop_if_empty(node)

    def withdraw(self, key: tuple[str, str], node: str) -> None:
        """What was assumed is not going to be asked for; what is written of it stays."""
        account = self._accounts.get(node)
        if account is not None and account.assumed.pop(key, None) is not None:
            self._touched(node, Cause.PROMISE)
            self._drop_if_empty(node)

    def intents_seen(self, node: str, intents: Iterable[Intent], ours: bool = False) -> None:
        """All that is written down of Bindings to a node; ``ours`` is what we have just written ourselves."""
        written = {intent.key: intent for intent in intents}
        account = self._account(node)
        # What was settled stays so for as long as it is written there by the same extender: another one may
        # post it again. We ourselves write nothing but what is open.
        account.settled = {
            key: extender
            for key, extender in account.settled.items()
            if not ours and key in written and written[key].extender == extender
        }
        there = {
            key: intent
            for key, intent in written.items()
            if key not in account.settled and key[0] not in self._gone and key[0] not in self._confirmed_on
        }
        if there != account.intents:
            account.intents = there
            for uid, _ in there:
                self._promised_on.setdefault(uid, set()).add(node)
            self._touched(node, Cause.PROMISE)
        self._drop_if_empty(node)

    def nominate(self, pod: BoundPod, node: str | None) -> None:
        """A pod waits for others to leave a node; None: for none any more."""
        for other in list(self._promised_on.get(pod.uid, ())):
            account = self._accounts.get(other)
            if other != node and account is not None and account.nominated.pop(pod.uid, None) is not None:
                self._touched(other, Cause.PROMISE)
                self._drop_if_empty(other)
        if node is None or pod.uid in self._gone or pod.uid in self._confirmed_on:
            return
        if self._account(node).nominated.get(pod.uid) != pod:
            self._account(node).nominated[pod.uid] = pod
            self._promised_on.setdefault(pod.uid, set()).add(node)
            self._touched(node, Cause.PROMISE)

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
            account.nominated.pop(uid, None)
            for intents in (account.assumed, account.intents):
                for key in [key for key in intents if key[0] == uid]:
                    del intents[key]
            self._touched(node, Cause.PROMISE if self._confirmed_on.get(uid) != node else Cause.POD)
            self._drop_if_empty(node)

    def _account(self, node: str) -> _Account:
        return self._accounts.setdefault(node, _Account())

    def _drop_if_empty(self, node: str) -> None:
        account = self._accounts.get(node)
        if account is not None and account.is_empty():
            del self._accounts[node]


def _is_named(pod: BoundPod, report: Report) -> bool:
    holders = [holder for device in report.devices for holder in device.holders]
    holders += [i.holder for device in report.devices for i in device.mig.instances if i.holder is not None]
    return any(pod.is_holder(holder) for holder in holders)
