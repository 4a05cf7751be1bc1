"""All sources of one node, and the age of its report."""

from dataclasses import dataclass

from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.unreported import REPORTED_VENDORS


@dataclass(slots=True)
class NodeEntry:
    """All sources of one node. `since` is when the Node was created; `owner_uid` is the uid of the Node that
    the report belongs to."""

    since: float = 0.0
    record: NodeRecord | None = None
    report: Report | None = None
    received_at: float = 0.0
    owner_uid: str | None = None
    freshness: str = "Fresh"

    def own_report(self) -> Report | None:
        """The report, unless it belongs to a former node of the same name."""
        if self.record is None or self.owner_uid in (None, self.record.uid):
            return self.report
        return None

    def freshness_at(
        self, now: float, stale_after_s: float, missing_after_s: float, has_devices: bool
    ) -> str:
        """Fresh, Stale or Missing. Without a report, a node of a vendor whose GPUs are reported is Missing
        after a while, unless its devices are known by DRA."""
        if self.own_report() is not None:
            age_s = now - self.received_at
            if age_s < stale_after_s:
                return "Fresh"
            return "Stale" if age_s < missing_after_s else "Missing"
        estimate = self.record.estimate if self.record is not None else None
        if has_devices or estimate is None or estimate.vendor not in REPORTED_VENDORS:
            return "Fresh"
        return "Fresh" if now - self.since < missing_after_s else "Missing"


NO_ENTRY = NodeEntry()
"""The entry of a name without any source; it is never changed."""
