"""What is wrong with nodes' reports as they are now, and what of it the cluster has yet to be told.

Each trouble stays until it is put right, so that whoever becomes the active extender tells of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from threading import Lock

from scheduler_ext.wire.report import CORDONED_ANNOTATION

REFUSED = "GPUReportRefused"
CORDON = "GPUCordonUnknown"


@dataclass(frozen=True, slots=True)
class ReportProblem:
    """An event to write; one of the same reason ``about`` something else is another."""

    node: str
    reason: str
    note: str
    about: str = ""


class ReportProblems:
    """By node. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._refusals: Counter[str] = Counter()
        self._strangers: dict[str, tuple[str, ...]] = {}
        self._untold: dict[tuple[str, str], ReportProblem] = {}

    def refused(self, node: str, problem: str) -> None:
        """A report contradicts itself; the last good one stays, and ages."""
        with self._lock:
            self._refusals[node] += 1
            self._untold[node, REFUSED] = ReportProblem(node, REFUSED, problem)

    def accepted(self, node: str, strangers: tuple[str, ...]) -> None:
        """A good report; ``strangers`` are cordoned UUIDs that none of its devices has."""
        with self._lock:
            self._untold.pop((node, REFUSED), None)
            if self._strangers.get(node, ()) == strangers:
                return
            self._strangers[node] = strangers
            self._untold.pop((node, CORDON), None)
            if strangers:
                named = ", ".join(strangers)
                note = f"GPUNode {node}: {CORDONED_ANNOTATION} names {named}, which no GPU of the node is"
                self._untold[node, CORDON] = ReportProblem(node, CORDON, note, named)

    def gone(self, node: str) -> None:
        """There is no report any more."""
        with self._lock:
            self._forget(node)

    def only(self, nodes: Collection[str]) -> None:
        """These have reports, and no others."""
        with self._lock:
            for node in (self._refusals.keys() | self._strangers.keys()) - set(nodes):
                self._forget(node)

    def counts(self) -> dict[str, int]:
        """How often reports were refused, of nodes that have one."""
        with self._lock:
            return dict(self._refusals)

    def take_untold(self) -> list[ReportProblem]:
        """What is to be told now; it is not given out again."""
        with self._lock:
            untold, self._untold = self._untold, {}
        return list(untold.values())

    def _forget(self, node: str) -> None:
        self._refusals.pop(node, None)
        self._strangers.pop(node, None)
        for reason in (REFUSED, CORDON):
            self._untold.pop((node, reason), None)
