"""The pods that wait for GPUs, each with its reason and what is nearest to a fit: for pages and metrics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Protocol

from scheduler_ext.core.errors import RequestError
from scheduler_ext.core.node import BoundPod, PendingPod
from scheduler_ext.core.reasons import INVALID_REQUEST
from scheduler_ext.extender.decision_rows import asks
from scheduler_ext.extender.explainer import Explainer
from scheduler_ext.extender.record import Record, Recorded
from scheduler_ext.wire.redacted import spec_of
from scheduler_ext.wire.times import micro_time

NOT_ASKED = "kube-scheduler has not asked about it"
FITS_NOW = "it fits now; kube-scheduler has yet to try again"
# Finding the nearest node looks at all of them: it may take this part of the time.
_PART = 0.05
_LEAST_S = 2.0
# Pods that ask differently are looked into one by one; of more kinds than this the nearest is not told.
_KINDS = 50
_MOST = 500


class Waiters(Protocol):
    """Who waits."""

    def pending(self) -> Sequence[PendingPod]: ...


class Waiting:
    """Safe to use from any thread. What is nearest is found at most so often that little time goes there."""

    def __init__(
        self,
        source: Waiters,
        record: Record,
        explainer: Explainer,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._record = record
        self._explainer = explainer
        self._monotonic = monotonic
        self._lock = Lock()
        self._lines: list[dict[str, Any]] = []
        self._good_until = 0.0

    def reasons(self) -> dict[str, int]:
        """How many pods wait for which reason, by what refused most nodes the last time."""
        return dict(Counter(self._reason(each, self._of(each)) for each in self._source.pending()))

    def lines(self) -> list[dict[str, Any]]:
        """The pods that wait, the highest priority first, then the longest waiting; at most 500.

        Plain JSON values: ``namespace``, ``name``, ``uid``, ``priority``, ``since``,
        ``asks``, ``filters`` (how often kube-scheduler asked), ``reason``, ``nearest`` (a sentence, or None),
        ``nominated`` (the node where it waits for others to leave).
        """
        with self._lock:
            begun = self._monotonic()
            if begun >= self._good_until:
                self._lines = self._found()
                now = self._monotonic()
                self._good_until = now + max(_LEAST_S, (now - begun) / _PART)
            return self._lines

    def _found(self) -> list[dict[str, Any]]:
        pods = sorted(self._source.pending(), key=lambda each: (-each.pod.priority, _since(each.pod)))[:_MOST]
        told: dict[tuple[str, bytes], Mapping[str, Any] | None] = {}
        lines = []
        for each in pods:
            # Pods alike are told alike, but for the names that their namespace may see.
            kind = each.pod.namespace, spec_of(each.manifest)
            if kind not in told and len(told) < _KINDS:
                told[kind] = self._diagnosed(each)
            lines.append(self._line(each, told.get(kind)))
        return lines

    def _diagnosed(self, waiting: PendingPod) -> Mapping[str, Any] | None:
        try:
            return self._explainer.of_waiting(waiting)
        except RequestError:
            return None

    def _line(self, waiting: PendingPod, told: Mapping[str, Any] | None) -> dict[str, Any]:
        pod, entry = waiting.pod, self._of(waiting)
        reason = self._reason(waiting, entry)
        nearest = told["nearest"] if told is not None else None
        if waiting.invalid is not None:
            text: str | None = waiting.invalid
        elif nearest is not None:
            text = nearest["text"]
            reason = next(iter(told["counts"]), reason) if told is not None else reason
        else:
            text = FITS_NOW if told is not None and sum(told["counts"].values()) < told["nodes"] else None
        return {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "priority": pod.priority,
            "since": micro_time(pod.created_at) if pod.created_at is not None else None,
            "asks": asks(pod.request),
            "filters": entry.filters if entry is not None else 0,
            "reason": reason,
            "nearest": text,
            "nominated": waiting.nominated_node,
        }

    def _of(self, waiting: PendingPod) -> Recorded | None:
        return self._record.of_uid(waiting.pod.uid)

    @staticmethod
    def _reason(waiting: PendingPod, entry: Recorded | None) -> str:
        if waiting.invalid is not None:
            return INVALID_REQUEST.text
        return (entry.main_reason if entry is not None else None) or NOT_ASKED


def _since(pod: BoundPod) -> float:
    return pod.created_at if pod.created_at is not None else 0.0
