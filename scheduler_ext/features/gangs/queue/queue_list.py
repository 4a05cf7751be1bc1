"""The queue as plain JSON values: a row for each waiting pod or gang, in kube-scheduler's order."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.explain.explain import API_VERSION
from scheduler_ext.explain.sentences import request_in_words
from scheduler_ext.features.gangs.planning.plan import Entry, Plan, State
from scheduler_ext.features.gangs.queue.estimate import WITHIN, StartEstimate
from scheduler_ext.features.gangs.queue.start_estimates import QueueRow, QueueSource, StartEstimates
from scheduler_ext.wire.gangs import gates_in_words
from scheduler_ext.wire.redacted import read_redacted
from scheduler_ext.wire.times import time_text

_MOST_ROWS = 5000
# States in which the last decisions say more than the state itself.
_BY_LINE = (State.WAITING, State.INVALID, State.NOMINATED_ELSEWHERE)


class QueueView:
    """The queue of a source. Safe to use from any thread."""

    def __init__(
        self,
        source: QueueSource,
        lines: Callable[[], Sequence[Mapping[str, Any]]],
        estimates: StartEstimates,
        plan: Callable[[], Plan | None] = lambda: None,
    ) -> None:
        """`lines` are those of `explain.waiting`; `plan` is that of the waiting pods, if there is one."""
        self._source = source
        self._lines = lines
        self._estimates = estimates
        self._plan = plan

    def listed(self, namespace: str | None, now: float, most: int | None = None) -> dict[str, Any]:
        """The QueueList at `now` (wall time in seconds), at most so many of its rows; positions are those in
        the whole queue, also of the pods of one namespace."""
        plan, past_runs = self._plan(), self._estimates.past_runs()
        pending = {each.pod.identity: each for each in self._source.pending()}
        lines = {line["uid"] or f"{line['namespace']}/{line['name']}": line for line in self._lines()}
        found = _planned_rows(plan, pending) if plan is not None else _bare_rows(pending)
        rows = [_beside(lines.get(row.identity), row) for row in found]
        made = self._estimates.of(rows)
        wanted = [
            (position, row)
            for position, row in enumerate(rows, 1)
            if namespace in (None, row.pods[0].pod.namespace)
        ]
        items = []
        for position, row in wanted[: most or _MOST_ROWS]:
            start = _start(made.of(row), made.at)
            items.append(_item(position, row, lines.get(row.identity), now) | {"start": start})
        return {
            "apiVersion": API_VERSION,
            "kind": "QueueList",
            "planning": plan is not None,
            "plannedAt": time_text(plan.made_at) if plan is not None else None,
            "runTimes": len(past_runs) if past_runs is not None else None,
            "within": WITHIN,
            "total": len(wanted),
            "states": {state.value: state.meaning for state in dict.fromkeys(row.state for row in rows)},
            "items": items,
        }


def _planned_rows(plan: Plan, pending: Mapping[str, PendingPod]) -> list[QueueRow]:
    """The rows of a plan, and then the pods that came since, or are being deleted since; pods that have gone
    since are left out. A gang is where its first pod is."""
    rows: dict[Any, list[Entry]] = {}
    planned = {entry.uid for entry in plan.entries}
    new = {uid: each for uid, each in pending.items() if uid not in planned or each.pod.terminating}
    for entry in plan.entries:
        if entry.uid in pending and entry.uid not in new:
            rows.setdefault(entry.gang or entry.uid, []).append(entry)
    found = [
        QueueRow([pending[entry.uid] for entry in entries], entries[0].state, entries)
        for entries in rows.values()
    ]
    return [*found, *_bare_rows(new)]


def _beside(line: Mapping[str, Any] | None, row: QueueRow) -> QueueRow:
    """The row with what its line says of its first pod."""
    return row if line is None else row._replace(fits=line["fits"], served=line["served"])


def _bare_rows(pending: Mapping[str, PendingPod]) -> list[QueueRow]:
    """Pods without a plan, in kube-scheduler's order."""
    return [QueueRow([each], _bare_state(each)) for each in sorted(pending.values(), key=_rank)]


def _rank(waiting: PendingPod) -> tuple[int, float, str, str]:
    pod = waiting.pod
    return -pod.priority, pod.created_at or 0.0, pod.namespace, pod.name


def _bare_state(waiting: PendingPod) -> State:
    if waiting.pod.terminating:
        return State.TERMINATING
    if waiting.invalid is not None:
        return State.INVALID
    if waiting.gated:
        return State.GATED
    if waiting.is_planned:
        return State.NOMINATED
    return State.NOMINATED_ELSEWHERE if waiting.nominated_node is not None else State.WAITING


def _item(position: int, row: QueueRow, line: Mapping[str, Any] | None, now: float) -> dict[str, Any]:
    first = row.pods[0].pod
    entry = row.entries[0] if row.entries else None
    gang = entry.gang if entry is not None else None
    created = [each.pod.created_at for each in row.pods if each.pod.created_at is not None]
    return {
        "position": position,
        "namespace": first.namespace,
        "name": gang.name if gang is not None else first.name,
        "uid": None if gang is not None else first.uid,
        "gang": {"source": gang.source, "name": gang.name} if gang is not None else None,
        "members": _members(row) if gang is not None else [],
        "asks": _asks(row) if gang is not None else request_in_words(first.request),
        "priority": min(each.pod.priority for each in row.pods),
        "state": row.state.value,
        "nodes": dict(Counter(_nodes(row))),
        "devices": dict(entry.devices) if entry is not None else {},
        "created": time_text(min(created)) if created else None,
        "waitingSeconds": max(0, round(now - min(created))) if created else None,
        "stateSince": time_text(entry.since) if entry is not None and entry.since else None,
        "reason": _reason(row, entry, line),
        "refusals": _refusals(row, line),
    }


def _asks(row: QueueRow) -> str:
    """What the pods of a gang ask."""
    found = Counter(request_in_words(each.pod.request) for each in row.pods)
    if len(found) == 1:
        return f"{next(iter(found))} each"
    return "; ".join(f"{count} pod{'s' * (count > 1)}: {text}" for text, count in found.items())


def _nodes(row: QueueRow) -> list[str]:
    if row.entries:
        return [entry.node for entry in row.entries if entry.node]
    return [each.nominated_node for each in row.pods if each.nominated_node is not None]


def _members(row: QueueRow) -> list[dict[str, Any]]:
    return [
        {
            "namespace": entry.namespace,
            "name": entry.name,
            "uid": entry.uid,
            "state": entry.state.value,
            "node": entry.node or None,
            "reason": entry.reason,
            "refusals": dict(entry.refusals),
        }
        for entry in row.entries
    ]


def _reason(row: QueueRow, entry: Entry | None, line: Mapping[str, Any] | None) -> str:
    """The plan's own sentence; the gates of a gated pod with their owners; of a pod that fits nowhere the
    nearest miss, or the reason of the last filter; else the meaning of its state."""
    if entry is not None and entry.reason:
        return entry.reason
    state = row.state
    if state is State.GATED and row.pods[0].manifest:
        return "; ".join(gates_in_words(read_redacted(row.pods[0].manifest)))
    if line is not None and state in _BY_LINE:
        return str(line["nearest"] or line["reason"])
    meaning = state.meaning.rstrip(".")
    return meaning[0].lower() + meaning[1:]


def _refusals(row: QueueRow, line: Mapping[str, Any] | None) -> dict[str, int]:
    """The plan's, of a gang those of the first member without a place; else those of its explanation."""
    planned = next((dict(each.refusals) for each in row.entries if each.refusals), None)
    if planned is not None:
        return planned
    return dict(line["refusals"]) if line is not None and row.state in _BY_LINE else {}


def _start(estimate: StartEstimate | None, at: float) -> dict[str, Any]:
    """The estimate as times; it was made `at`."""
    if estimate is None:
        estimate = StartEstimate(unknown="the estimate is being made; ask again in some seconds")
    moments = (estimate.earliest_s, estimate.median_s, estimate.latest_s)
    earliest, median, latest = (None if each is None else time_text(at + each) for each in moments)
    return {
        "earliest": earliest,
        "median": median,
        "latest": latest,
        "byStatedLimits": estimate.stated,
        "unknown": estimate.unknown,
    }
