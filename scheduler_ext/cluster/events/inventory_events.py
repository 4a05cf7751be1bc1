"""Problems of nodes, reported by Events: stale and refused reports, nodes without an agent, GPU memory that
no known pod uses, and share nodes that are closed to shares."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from threading import Lock

from scheduler_ext.core.node.holdings import holdings_of
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.node_labels import AGENT_LABEL
from scheduler_ext.core.node.promisable import is_of_shares
from scheduler_ext.core.node.unreported import effect, remedy, takes
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.counters import Counter
from scheduler_ext.wire.report import CORDONED_ANNOTATION

log = logging.getLogger(__name__)

Warn = Callable[[str, str | None, str, str, str], None]
"""Writes a Warning Event on a node: its name and uid, the reason, the note, and what it is about. An equal
Event is left out for a while."""

STALE = "GPUInventoryStale"
UNLABELLED = "GPUNodeUnlabelled"
UNACCOUNTED = "GPUUnaccountedUsage"
UNPLACED = "ShareWithoutGPU"
PLUGIN = "SharedByDevicePlugin"
REFUSED = "GPUReportRefused"
CORDON = "GPUCordonUnknown"
# More nodes than this with one problem get one Event, about the first of them.
_APART = 5
# Nodes that are closed to shares get an Event each, and another one when the note changes.
_OF_SHARES = (UNPLACED, PLUGIN)
# CUDA contexts of monitoring tools take less.
_LEAST_MIB = 1024
_LEAST_PERCENT = 5


@dataclass(eq=False)
class InventoryEvents:
    """Keeps the problems of nodes and writes their Events while they last; for one thread. `unplaced`, that
    any thread may copy, has the number of pods with a share on an unknown GPU, by node. `not_labelling`
    returns why the extender does not label nodes for the agent; None while it does."""

    warn: Warn
    resources: ResourceNames
    not_labelling: Callable[[], str | None] = lambda: None
    unplaced: dict[str, int] = field(default_factory=dict, init=False)
    # By reason and node: the uid of the node, and the note.
    _found: defaultdict[str, dict[str, tuple[str | None, str]]] = field(
        default_factory=lambda: defaultdict(dict), init=False
    )

    def follow(self, infos: Mapping[str, NodeInfo | None], unlabelled: Collection[str] = ()) -> None:
        """Look at nodes that changed; `unlabelled` are those without a label that brings an agent."""
        for name, info in infos.items():
            pods = self._unplaced(info)
            self.unplaced.pop(name, None)
            if pods:
                self.unplaced[name] = len(pods)
            notes = {
                STALE: _stale(info) if name not in unlabelled else None,
                UNLABELLED: _no_agent(info) if name in unlabelled else None,
                UNACCOUNTED: _unaccounted(info),
                UNPLACED: _closed_by(pods, name) if pods else None,
                PLUGIN: _handed_out(info) if not pods else None,
            }
            for reason, note in notes.items():
                before = self._found[reason].pop(name, None)
                if info is not None and note is not None:
                    self._found[reason][name] = found = info.uid, note
                    if reason in _OF_SHARES and found != before:
                        log.error("%s", note)
        # All problems, not only new ones: a standby writes no Events, and the API server drops old ones.
        not_labelling = self.not_labelling()
        for reason, of_nodes in self._found.items():
            if reason == UNLABELLED and not_labelling is None:
                continue
            why = f"; {not_labelling}" if reason == UNLABELLED else ""
            if len(of_nodes) <= _APART or reason in _OF_SHARES:
                for name, (uid, note) in of_nodes.items():
                    self.warn(name, uid, reason, note + why, note if reason in _OF_SHARES else "")
                continue
            name, (uid, note) = next(iter(of_nodes.items()))
            more = f"{note}{why}; {len(of_nodes) - 1} more nodes have the same problem"
            self.warn(name, uid, reason, more, "many")

    def _unplaced(self, info: NodeInfo | None) -> list[str]:
        if info is None or not any(pod.request.shares is not None for pod in info.pods):
            return []
        return [f"{pod.namespace}/{pod.name}" for pod in holdings_of(info, self.resources).unplaced]


def _stale(info: NodeInfo | None) -> str | None:
    # A label that keeps the agent away is an administrator's choice.
    why = effect(info) if info is not None and info.agent_label != "keeps away" else None
    if info is None or why is None:
        return None
    step = remedy(info)
    return f"{why}; {step}" if step is not None else why


def _no_agent(info: NodeInfo | None) -> str | None:
    if info is None:
        return None
    has = "is labelled for memory shares" if info.share_node else "has NVIDIA GPUs"
    after = "" if info.by_allocatable or info.share_node else " after inventory.missingAfter"
    return (
        f"the node {has} and no label brings an agent to it; without a report {takes(info)}{after}: "
        f"kubectl label node {info.name} {AGENT_LABEL}=true"
    )


def _unaccounted(info: NodeInfo | None) -> str | None:
    """Names the GPUs with much unaccounted memory; the amount, which changes all the time, is left out. An
    old report has its own Event."""
    if info is None or info.freshness != "Fresh":
        return None
    gpus = [
        f"GPU {device.index} ({device.uuid})"
        for device in info.devices
        if (device.memory.unaccounted_mib or 0)
        >= max(_LEAST_MIB, device.memory.total_mib * _LEAST_PERCENT // 100)
    ]
    if not gpus:
        return None
    more = f" and {len(gpus) - 4} more" if len(gpus) > 4 else ""
    return (
        f"memory of {', '.join(gpus[:4])}{more} is used by no pod that holds it; it is not handed out again: "
        "look for processes outside of pods, or pods that see all GPUs"
    )


def _closed_by(pods: list[str], name: str) -> str:
    return (
        f"node {name} takes no new share until its pods with a share on an unknown GPU are gone. No "
        f"annotation names a GPU of this node for these shares: another scheduler bound the pods, or their "
        f"GPU was removed. Pods: {', '.join(pods)}"
    )


def _handed_out(info: NodeInfo | None) -> str | None:
    if info is None or not info.share_node or info.allocatable is None or is_of_shares(info):
        return None
    return (
        f"node {info.name} is labelled to share its GPUs, but a device plugin hands them out too, so no "
        "share is placed there: remove the label, or keep the device plugin off the node"
    )


class ReportProblems:
    """The problems of nodes' current reports, by node; safe to use from several threads. A problem stays
    until it is solved, so that the extender that becomes active later writes its Event."""

    # Of nodes that have a report.
    refusals = Counter(
        "gpu_extender_reports_refused",
        ("Reports of existing GPUNodes that were refused because they contradict themselves."),
        ("node",),
    )

    def __init__(self) -> None:
        self._lock = Lock()
        self._strangers: dict[str, tuple[str, ...]] = {}
        # By node and reason: the note of the Event, and what it is about.
        self._unwritten: dict[tuple[str, str], tuple[str, str]] = {}

    def refused(self, node: str, problem: str) -> None:
        """A report contradicts itself; the last good report stays, and ages."""
        with self._lock:
            self.refusals.inc(node)
            self._unwritten[node, REFUSED] = problem, ""

    def accepted(self, node: str, strangers: tuple[str, ...]) -> None:
        """A good report arrived; `strangers` are cordoned UUIDs that none of its devices has."""
        with self._lock:
            self._unwritten.pop((node, REFUSED), None)
            if self._strangers.get(node, ()) == strangers:
                return
            self._strangers[node] = strangers
            self._unwritten.pop((node, CORDON), None)
            if strangers:
                named = ", ".join(strangers)
                note = f"GPUNode {node}: {CORDONED_ANNOTATION} names {named}, which no GPU of the node is"
                self._unwritten[node, CORDON] = note, named

    def gone(self, node: str) -> None:
        """The report was removed."""
        with self._lock:
            self.refusals.pop(node, None)
            self._strangers.pop(node, None)
            for reason in (REFUSED, CORDON):
                self._unwritten.pop((node, reason), None)

    def nodes(self) -> set[str]:
        """The nodes that had a report, good or refused."""
        with self._lock:
            return {*map(str, self.refusals), *self._strangers}

    def take_unwritten(self) -> list[tuple[str, str, str, str]]:
        """Problems without an Event, each returned once: node, reason, note, and what the Event is about."""
        with self._lock:
            unwritten, self._unwritten = self._unwritten, {}
        return [(*where, *event) for where, event in unwritten.items()]
