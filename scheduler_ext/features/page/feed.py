"""The page's data, kept ready by its own thread, so that no request waits for a computation. The thread works
only while the page is open, except for one sample of the history now and then."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from threading import Event
from typing import Any, NamedTuple

from scheduler_ext.background import Background
from scheduler_ext.core.gpu.readings import NodeReadings
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.recorded import decision_row
from scheduler_ext.explain.waiting import MOST_LINES, still_waiting
from scheduler_ext.extender.record import Record
from scheduler_ext.features.page.history import EVERY_S, History, sample
from scheduler_ext.features.page.late_reports import late_reports
from scheduler_ext.features.page.overview import OverviewRows
from scheduler_ext.server.serving import Serving
from scheduler_ext.sources.source_status import Problem, Source
from scheduler_ext.views.fragmentation import fragmentation
from scheduler_ext.wire.extender_args import encode_json

log = logging.getLogger(__name__)

# While the page is open. The ages of all reports take longer, and matter less.
_LOOK_EVERY_S = 0.8
_STATUS_EVERY_S = 2.0
# An update takes a moment; if none ended for this long, the shown data is old.
_LATE_S = 15.0
# A start time that is computed from an age varies by the duration of the computation.
_SAME_S = 5.0
# A page asks every second, and continues until it is closed.
_WATCHED_S = 10.0
_MOST_DECISIONS = 200


class LastEventId(NamedTuple):
    """The state that a page has already, as the id of its last event: the process, and a number for each
    part."""

    process: str = ""
    nodes: int = 0
    decisions: int = 0
    pending: int = 0
    samples: int = 0

    @classmethod
    def parse(cls, text: str) -> LastEventId:
        """Empty for text that is no id."""
        process, *numbers = text.split(".")
        if len(numbers) != 4 or not all(n.isascii() and n.isdigit() and len(n) < 16 for n in numbers):
            return cls()
        return cls(process, *map(int, numbers))

    def __str__(self) -> str:
        return ".".join(map(str, self))


class PageFeed(Background):
    """The state of the page by parts, each with a number that grows when it changes."""

    def __init__(
        self,
        source: Source,
        record: Record,
        pending_lines: Callable[[], list[dict[str, Any]]],
        resources: ResourceNames,
        headroom_percent: int,
        idle_after_s: float,
        features: Serving,
        sample_every_s: float = EVERY_S,
    ) -> None:
        super().__init__("page")
        self.source = source
        self.history = History()
        self._record = record
        self._pending_lines = pending_lines
        self._rows = OverviewRows(resources, headroom_percent)
        self._process = secrets.token_hex(4)
        self._pending: tuple[int, bytes] = 0, b"[]"
        self._status: dict[str, Any] = {}
        self._readings: NodeReadings = {}
        self._idle_after_s = idle_after_s
        self._features = features
        # By node, the UUIDs of idle GPUs, where a feature knows them.
        self._idle: dict[str, AbstractSet[str]] = {}
        self._problems: dict[str, dict[str, Any]] = {}
        self._sample_every_s = sample_every_s
        self._sample_at = self._status_at = 0.0
        self._watched_until = 0.0
        # When the last update ended, or a browser opened the page after it.
        self._looked_at = 0.0
        self._failing_since: float | None = None
        # Since when nodes without any report are many; None while they are not.
        self._unreported_since: float | None = None
        self._asked = Event()

    def stop(self, wait_s: float = 1.0) -> None:
        """Stop keeping it."""
        self.stopped.set()
        self._asked.set()
        super().stop(wait_s)

    def since(self, seen: LastEventId) -> tuple[LastEventId, bytes] | None:
        """The changes that a page has not seen yet, as one JSON object; None while nothing is known at all.
        Unchanged parts are left out."""
        now = time.monotonic()
        if now > self._watched_until:
            self._looked_at = now
        self._watched_until = now + _WATCHED_S
        self._asked.set()
        status, (pending_number, pending) = self.status(), self._pending
        if not self._rows.version or not pending_number:
            return None
        if seen.process != self._process:
            seen = LastEventId()
        change = self._rows.since(seen.nodes)
        decisions = self._record.recent(seen.decisions, _MOST_DECISIONS)
        samples_number, samples = self.history.since(seen.samples)
        latest = max([entry.number for entry in decisions], default=seen.decisions)
        parts = [b'"status":' + encode_json(status | {"generation": change.generation})]
        if change.full or change.rows or change.gone:
            parts += [
                b'"full":' + encode_json(change.full),
                b'"nodes":[' + b",".join(change.rows) + b"]",
                b'"gone":' + encode_json(change.gone),
            ]
        if decisions:
            parts.append(b'"decisions":' + encode_json([decision_row(entry) for entry in decisions]))
        if pending_number != seen.pending:
            parts.append(b'"pending":' + pending)
        if samples:
            parts.append(b'"samples":' + encode_json(samples))
        shown = LastEventId(self._process, change.version, latest, pending_number, samples_number)
        return shown, b"{" + b",".join(parts) + b"}"

    def status(self) -> dict[str, Any]:
        """The state of the source, and whether the shown data follows it, as plain JSON values."""
        now = time.monotonic()
        own = []
        if self._failing_since is not None:
            own.append(Problem("page", "unexpected error; see the log", now - self._failing_since))
        elif now - self._looked_at > _LATE_S:
            own.append(Problem("page", "the extender is too busy to keep it", now - self._looked_at))
        if not own:
            return self._status
        problems = [*self._status.get("problems", ()), *_plain(own, time.time())]
        return self._status | {"broken": True, "problems": problems}

    def run(self) -> None:
        """Keep the state until stopped."""
        while not self.stopped.is_set():
            now = time.monotonic()
            watched = now < self._watched_until
            try:
                self.refresh(time.time(), look=watched, take_sample=now >= self._sample_at)
                self._looked_at, self._failing_since = time.monotonic(), None
            except Exception:
                self._failing_since = self._failing_since or now
                log.exception("the page was not brought up to date")
            if now >= self._sample_at:
                self._sample_at = now + self._sample_every_s
            if watched:
                time.sleep(_LOOK_EVERY_S)
                continue
            self._asked.wait(max(0.0, self._sample_at - time.monotonic()))
            self._asked.clear()

    def refresh(self, wall_time: float, *, look: bool = True, take_sample: bool = False) -> None:
        """Read the cluster once."""
        snapshot = self.source.snapshot
        if look:
            self._look_at_status(snapshot, wall_time)
        if snapshot is None:
            return
        if take_sample:
            self.history.add(sample(snapshot, self._waiting(), wall_time))
        if look:
            self._rows.update(snapshot, self._readings, self._idle)
            self._look_at_pending()

    def _look_at_pending(self) -> None:
        found = self._pending_lines()
        lines = [line for line in found if line["state"] == "Waiting"]
        # Lines are computed now and then: counted at another moment, these pods would be other ones.
        total = len(lines) if len(found) < MOST_LINES else self._waiting()
        number, known = self._pending
        encoded = encode_json({"total": total, "lines": lines})
        if encoded != known:
            self._pending = number + 1, encoded

    def _waiting(self) -> int:
        """The number of pods that wait for GPUs."""
        return sum(1 for _ in still_waiting(self.source.pending()))

    def _look_at_status(self, snapshot: Snapshot | None, wall_time: float) -> None:
        now = time.monotonic()
        if self._status and now < self._status_at:
            return
        self._status_at = now + _STATUS_EVERY_S
        status = self.source.status()
        self._readings = status.readings
        if snapshot is not None:
            infos = [node.info for node in snapshot.nodes.values()]
            found = self._features.facts_of_nodes(infos, status, wall_time)
            self._idle = {name: set(facts.get("idleGpus", ())) for name, facts in found.items()}
        unallocated, unusable = fragmentation(snapshot) if snapshot is not None else (0.0, 0.0)
        late = self._late_reports(snapshot, status.report_ages_s)
        problems = {each["what"]: each for each in _plain([*status.problems, *late], wall_time)}
        for what, problem in problems.items():
            # Those that last keep the start time that was shown before.
            before = self._problems.get(what)
            if before is not None and abs(before["since"] - problem["since"]) < _SAME_S:
                problem["since"] = before["since"]
        self._problems = problems
        self._status = {
            "at": round(wall_time, 1),
            "ageSeconds": round(status.age_s, 1),
            "broken": bool(problems),
            "problems": list(problems.values()),
            "unallocated": round(unallocated, 2),
            "unusable": round(unusable, 2),
            "idleAfterSeconds": self._idle_after_s,
        }

    def _late_reports(self, snapshot: Snapshot | None, ages_s: Mapping[str, float]) -> list[Problem]:
        late = late_reports(snapshot, ages_s) if snapshot is not None else None
        if late is None:
            self._unreported_since = None
            return []
        self._unreported_since = self._unreported_since or time.monotonic()
        age_s = late.age_s if late.age_s is not None else time.monotonic() - self._unreported_since
        return [Problem("agents" if late.all else "reports", late.text, age_s)]


def _plain(problems: Iterable[Problem], wall_time: float) -> list[dict[str, Any]]:
    return [
        {"what": each.what, "text": each.text, "since": round(wall_time - each.since_s, 1)}
        for each in problems
    ]
