"""Who holds what on which node, from the binding to the end of the pod, and who waits for a place.

    pod ── pod_seen ──► Confirmed ── pod_gone ──► departed ── next report ──► nothing

A uid that is gone never comes back, whatever is heard of it late; a pod of the same name is another pod. A
bound pod is never unbound, so that an older word on it, from before its binding, changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from scheduler_ext.core.cause import Cause
from scheduler_ext.core.gpu import Report
from scheduler_ext.core.node import BoundPod

# A report that was received this long after a pod had gone was read after its last process had.
_READ_BEFORE_S = 2.0
# Pods that are gone, by uid: a list of pods that was on its way meanwhile must not bring one back.
_GONE_REMEMBERED = 20_000


@dataclass(frozen=True, slots=True)
class NodePods:
    """The pods of one node: ``holding`` are bound, or departed since the last report; ``nominated`` ones are
    to come."""

    holding: tuple[BoundPod, ...] = ()
    nominated: tuple[BoundPod, ...] = ()


NO_PODS = NodePods()


@dataclass(slots=True)
class _Account:
    """One node's pods, by uid."""

    confirmed: dict[str, BoundPod] = field(default_factory=dict)
    nominated: dict[str, BoundPod] = field(default_factory=dict)
    departed: dict[str, tuple[BoundPod, float]] = field(default_factory=dict)

    def is_empty(self) -> bool:
        return not (self.confirmed or self.nominated or self.departed)

    def pods(self) -> NodePods:
        bound = self.confirmed | {uid: pod for uid, (pod, _) in self.departed.items()}
        return NodePods(
            tuple(bound[uid] for uid in sorted(bound)),
            tuple(self.nominated[uid] for uid in sorted(self.nominated)),
        )


class Ledger:
    """The pods of every node. ``touched`` is told of each node where something changed, and why."""

    def __init__(self, touched: Callable[[str, Cause], None]) -> None:
        self._touched = touched
        self._accounts: dict[str, _Account] = {}
        self._confirmed_on: dict[str, str] = {}
        self._nominated_on: dict[str, str] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    def pods(self, node: str) -> NodePods:
        """What is promised on a node."""
        account = self._accounts.get(node)
        return account.pods() if account is not None else NO_PODS

    def confirmed(self) -> set[str]:
        """The uids of all bound pods, finished ones among them."""
        return set(self._confirmed_on)

    def holding(self) -> dict[str, str]:
        """The node of every bound pod that has not finished, by uid."""
        return {
            uid: node for uid, node in self._confirmed_on.items() if self._accounts[node].confirmed[uid].holds
        }

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
            if known == pod:
                return
            if pod.finished and not known.finished:
                self._accounts[node].departed[pod.uid] = (replace(pod, departed=True), now)
        if before is not None and before != node:
            self._unconfirm(pod.uid)
            self._drop_if_empty(before)
        self._confirmed_on[pod.uid] = node
        self._account(node).confirmed[pod.uid] = pod
        self._touched(node, Cause.POD)
        self._end_nomination(pod.uid)

    def pod_gone(self, uid: str, now: float, waited: bool = False) -> str | None:
        """A pod is gone, or has finished and holds nothing any more; the node that it was on.

        One that was never heard of, not even as one that ``waited``, leaves no trace: most ask no GPU.
        """
        if not waited and uid not in self._confirmed_on and uid not in self._nominated_on:
            return None
        self._gone[uid] = None
        if len(self._gone) > _GONE_REMEMBERED:
            self._gone.popitem(last=False)
        node = None
        if uid in self._confirmed_on:
            node, pod = self._unconfirm(uid)
            # One that had finished left when it did.
            self._account(node).departed.setdefault(uid, (replace(pod, departed=not pod.finished), now))
        self._end_nomination(uid)
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

    def nominate(self, pod: BoundPod, node: str | None) -> None:
        """A pod waits for others to leave a node; None: for none any more."""
        if self._nominated_on.get(pod.uid) != node:
            self._end_nomination(pod.uid)
        if node is None or self.knows_end_of(pod.uid):
            return
        if self._account(node).nominated.get(pod.uid) != pod:
            self._account(node).nominated[pod.uid] = pod
            self._nominated_on[pod.uid] = node
            self._touched(node, Cause.POD)

    def _unconfirm(self, uid: str) -> tuple[str, BoundPod]:
        node = self._confirmed_on.pop(uid)
        pod = self._accounts[node].confirmed.pop(uid)
        self._touched(node, Cause.POD)
        return node, pod

    def _end_nomination(self, uid: str) -> None:
        node = self._nominated_on.pop(uid, None)
        if node is not None:
            del self._accounts[node].nominated[uid]
            self._touched(node, Cause.POD)
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
