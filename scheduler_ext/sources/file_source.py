"""The inventory file of a running extender: read at start, and again when it changes."""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from scheduler_ext.background import Background
from scheduler_ext.core.errors import InventoryError, UnreadableFileError
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.gpu.readings import NodeReadings
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.node.pod_facts import FactsOfPods
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.heap import settle_heap
from scheduler_ext.sources.inventory_file import Sequences, read_nodes_apart
from scheduler_ext.sources.source_status import Check, Problem, SourceStatus
from scheduler_ext.wire.files import FileLook, Identity, UnansweredError
from scheduler_ext.wire.pod.pod_claims import ClaimLookup

log = logging.getLogger(__name__)

# A mounted ConfigMap changes by swapping a symbolic link, so the resolved file is polled.
POLL_S = 1.0
# A file that could not be read is tried again after this time, even if it did not change.
AGAIN_S = 30.0


class InventorySource(Background):
    """Supplies an extender from a file. A file with an error leaves the old inventory in place. Reports of a
    file do not age while it is served: they count as received when it was read."""

    # A file has no cluster to bind in.
    binder = None

    def __init__(self, path: Path, extender: Extender, resources: ResourceNames) -> None:
        super().__init__("inventory")
        self._path = path
        self._extender = extender
        self._resources = resources
        self._last: Sequences = {}
        self._pending: Sequence[PendingPod] = ()
        self._facts: Mapping[str, NodeFacts] = {}
        self._readings: NodeReadings = {}
        self._pod_facts: FactsOfPods = {}
        self._look = FileLook(path)
        self._seen: Identity = None
        self._again_at = math.inf
        self.problem: str | None = None
        self.checked_at = self._read_at = time.monotonic()

    @property
    def snapshot(self) -> Snapshot | None:
        return self._extender.snapshot

    @property
    def claims(self) -> ClaimLookup | None:
        return self._extender.claims

    def pending(self) -> Sequence[PendingPod]:
        return self._pending

    def is_gone(self, uid: str) -> bool:
        # A pod that is asked about need not be in the file.
        return False

    def node_facts(self) -> Mapping[str, NodeFacts]:
        return self._facts

    def status(self) -> SourceStatus:
        """The status: the file is served as it was last read, whatever happens to it."""
        age_s = time.monotonic() - self.checked_at
        checks, problems = [Check("inventory", self.snapshot is not None)], []
        if self.problem is not None:
            note = f"the old inventory is served: {self.problem}"
            checks.append(Check("inventory-reload", True, note))
            problems.append(Problem("inventory file", self.problem, age_s))
        forecast_age_s = time.monotonic() - self._read_at
        return SourceStatus(
            checks,
            age_s,
            bool(problems),
            problems,
            forecast_age_s=forecast_age_s,
            readings=self._readings,
            facts=self._pod_facts,
        )

    def load(self, *, if_changed: bool = False) -> None:
        """Read the file and pass its nodes to the extender. Raises InventoryError, and then changes
        nothing."""
        try:
            identity = self._look.identity()
        except UnansweredError as error:
            self._again_at = -math.inf
            raise UnreadableFileError(f"{self._path}: {error.strerror}") from None
        now = time.monotonic()
        if if_changed and identity == self._seen and now < self._again_at:
            if self.problem is None:
                self.checked_at = now
            return
        self._seen, self._again_at = identity, math.inf
        try:
            read = read_nodes_apart(self._path, self._resources, self._last)
        except UnreadableFileError:
            self._again_at = time.monotonic() + AGAIN_S
            raise
        infos, workload, self._pending, self._facts, claims, *_ = read
        *_, self._readings, self._pod_facts = read
        snapshot = self._extender.replace_nodes(infos.values(), Forecast(workload, ()), claims)
        reports = {name: info.report for name, info in infos.items() if info.report is not None}
        self._last = {name: (report.boot_id, report.sequence) for name, report in reports.items()}
        self.problem = None
        self.checked_at = self._read_at = time.monotonic()
        # The new objects live until the next reload.
        settle_heap()
        log.info("inventory read: %d nodes, generation %d", len(infos), snapshot.generation)

    def run(self) -> None:
        while not self.stopped.wait(POLL_S):
            try:
                self.load(if_changed=True)
            except InventoryError as error:
                if str(error) != self.problem:
                    log.error("inventory not reloaded, the old one stays: %s", error)
                self.problem = str(error)
            except Exception:
                self.problem = "unexpected error; see the log"
                log.exception("inventory not reloaded, the old one stays")
