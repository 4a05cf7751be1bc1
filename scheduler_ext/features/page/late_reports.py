"""Whether so many nodes lack a fresh report that the cause is rarely on the nodes."""

from collections.abc import Mapping
from typing import NamedTuple

from scheduler_ext.core.snapshot.snapshot import Snapshot

# As in the alert GPUInventoryStale: more than one in twenty.
_MANY = 1 / 20
# In a small cluster one or two nodes are not many.
_FEW = 2
_NAMED = 3


class LateReports(NamedTuple):
    """`late` of the `nodes` with GPUs are Stale or Missing. `age_s` is the time since one of them reported,
    None if none ever has."""

    nodes: int
    late: int
    text: str
    age_s: float | None

    @property
    def all(self) -> bool:
        """Whether no node has a fresh report."""
        return self.late == self.nodes


def late_reports(snapshot: Snapshot, ages_s: Mapping[str, float]) -> LateReports | None:
    """The late reports, if they are many or all; `ages_s` are the ages of reports by node."""
    counts = {"Fresh": 0, "Stale": 0, "Missing": 0}
    late = []
    for name, node in snapshot.nodes.items():
        info = node.info
        if info.report is None and info.estimate is None and info.freshness == "Fresh":
            continue
        counts[info.freshness] += 1
        if info.freshness != "Fresh":
            late.append(name)
    nodes = sum(counts.values())
    if not late or (len(late) < nodes and (len(late) <= _FEW or len(late) <= nodes * _MANY)):
        return None
    names = ", ".join(sorted(late)[:_NAMED])
    more = len(late) - _NAMED
    text = (
        f"{len(late)} of {nodes} nodes with GPUs have no fresh report "
        f"({counts['Stale']} stale, {counts['Missing']} missing): {names}"
        + (f" and {more} more" if more > 0 else "")
    )
    return LateReports(
        nodes, len(late), text, min((ages_s[name] for name in late if name in ages_s), default=None)
    )
