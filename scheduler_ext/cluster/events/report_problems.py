"""The problems of nodes' current reports, and those among them that have no Event yet.

A problem stays until it is solved, so that the extender that becomes active later writes its Event.
"""

from dataclasses import dataclass
from threading import Lock

from scheduler_ext.counters import Counter
from scheduler_ext.wire.report import CORDONED_ANNOTATION

REFUSED = "GPUReportRefused"
CORDON = "GPUCordonUnknown"


@dataclass(frozen=True, slots=True)
class ReportProblem:
    """An Event to write; Events of one reason differ by what they are ``about``."""

    node: str
    reason: str
    note: str
    about: str = ""


class ReportProblems:
    """By node. Safe to use from several threads."""

    # Of nodes that have a report.
    refusals = Counter(
        "gpu_extender_reports_refused", "Reports refused because they contradict themselves.", ("node",)
    )

    def __init__(self) -> None:
        self._lock = Lock()
        self._strangers: dict[str, tuple[str, ...]] = {}
        self._unwritten: dict[tuple[str, str], ReportProblem] = {}

    def refused(self, node: str, problem: str) -> None:
        """A report contradicts itself; the last good report stays, and ages."""
        with self._lock:
            self.refusals.inc(node)
            self._unwritten[node, REFUSED] = ReportProblem(node, REFUSED, problem)

    def accepted(self, node: str, strangers: tuple[str, ...]) -> None:
        """A good report arrived; ``strangers`` are cordoned UUIDs that none of its devices has."""
        with self._lock:
            self._unwritten.pop((node, REFUSED), None)
            if self._strangers.get(node, ()) == strangers:
                return
            self._strangers[node] = strangers
            self._unwritten.pop((node, CORDON), None)
            if strangers:
                named = ", ".join(strangers)
                note = f"GPUNode {node}: {CORDONED_ANNOTATION} names {named}, which no GPU of the node is"
                self._unwritten[node, CORDON] = ReportProblem(node, CORDON, note, named)

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

    def take_unwritten(self) -> list[ReportProblem]:
        """The problems without an Event; each is returned once."""
        with self._lock:
            unwritten, self._unwritten = self._unwritten, {}
        return list(unwritten.values())
