"""The inventory file behind a running extender: read at start, read again when it changes."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event, Thread

from scheduler_ext.core.errors import InventoryError, UnreadableFileError
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.heap import settle_heap
from scheduler_ext.sources.inventory_file import Sequences, read_nodes_apart
from scheduler_ext.sources.source_status import Check, Problem, SourceStatus
from scheduler_ext.wire.files import FileLook, Identity, UnansweredError

log = logging.getLogger(__name__)

# A mounted ConfigMap changes by swapping a symbolic link, so the resolved file is looked at, not watched.
POLL_S = 1.0
# A file that could not be read is tried again after this time, though its name leads to the same one.
AGAIN_S = 30.0


class InventorySource:
    """Keeps an extender supplied from a file. A file that cannot be believed leaves the old state in place.

    While it is served, a file does not age: its reports count as received when it was read.
    """

    def __init__(self, path: Path, extender: Extender, resources: ResourceNames) -> None:
        self._path = path
        self._extender = extender
        self._resources = resources
        self._last: Sequences = {}
        self._pending: Sequence[PendingPod] = ()
        self._facts: Mapping[str, NodeFacts] = {}
        self._look = FileLook(path)
        self._seen: Identity = None
        self._again_at = math.inf
        self._stop = Event()
        self._thread = Thread(target=self._poll, name="inventory", daemon=True)
        self.problem: str | None = None
        self.checked_at = self._read_at = time.monotonic()

    @property
    def snapshot(self) -> Snapshot | None:
        """What the extender decides on now."""
        return self._extender.snapshot

    @property
    def binder(self) -> None:
        """Nothing: a file has no cluster to bind in."""
        return None

    def pending(self) -> Sequence[PendingPod]:
        """The pods of the file that ask GPUs and have no node."""
        return self._pending

    def is_gone(self, uid: str) -> bool:
        """Never: whoever is asked about need not be in the file."""
        return False

    def node_facts(self) -> Mapping[str, NodeFacts]:
        """What kube-scheduler's own filters compare of each Node of the file, without amounts."""
        return self._facts

    def status(self) -> SourceStatus:
        """How it goes: the file as it was last read is served whatever becomes of it."""
        note = f"the old inventory is served: {self.problem}" if self.problem is not None else None
        return SourceStatus(
            checks=[Check("inventory", self.snapshot is not None), Check("inventory-reload", True, note)]
            if note
            else [Check("inventory", self.snapshot is not None)],
            age_s=time.monotonic() - self.checked_at,
            broken=self.problem is not None,
            problems=self._problems(),
            forecast_age_s=time.monotonic() - self._read_at,
        )

    def _problems(self) -> list[Problem]:
        age_s = time.monotonic() - self.checked_at
        if self.problem is not None:
            return [Problem("inventory file", self.problem, age_s)]
        return []

    def load(self) -> None:
        """Read the file and hand its nodes to the extender. Raises InventoryError; nothing changes then."""
        try:
            self._seen = self._look.identity()
        except UnansweredError as error:
            raise UnreadableFileError(f"{self._path}: {error.strerror}") from None
        self._read()

    def _read(self) -> None:
        infos, workload, self._pending, self._facts = read_nodes_apart(
            self._path, self._resources, self._last
        )
        snapshot = self._extender.replace_nodes(infos.values(), Forecast(workload, ()))
        reports = {name: info.report for name, info in infos.items() if info.report is not None}
        self._last = {name: (report.boot_id, report.sequence) for name, report in reports.items()}
        self.problem = None
        self.checked_at = self._read_at = time.monotonic()
        # What was just built lives until the next reload.
        settle_heap()
        log.info("inventory read: %d nodes, generation %d", len(infos), snapshot.generation)

    def start(self) -> None:
        """Look for changes from now on, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._stop.set()

    def _poll(self) -> None:
        while not self._stop.wait(POLL_S):
            try:
                identity = self._look.identity()
            except UnansweredError as error:
                self._refused(f"{self._path}: {error.strerror}")
                self._again_at = -math.inf
                continue
            now = time.monotonic()
            if identity == self._seen and now < self._again_at:
                if self.problem is None:
                    self.checked_at = now
                continue
            self._seen, self._again_at = identity, math.inf
            try:
                self._read()
            except UnreadableFileError as error:
                self._again_at = time.monotonic() + AGAIN_S
                self._refused(str(error))
            except InventoryError as error:
                self._refused(str(error))
            except Exception:
                self.problem = "unexpected error; see the log"
                log.exception("inventory not reloaded, the old one stays")

    def _refused(self, problem: str) -> None:
        if problem != self.problem:
            log.error("inventory not reloaded, the old one stays: %s", problem)
        self.problem = problem
