"""Counts refusals that an autoscaler does not see. All nodes of a filter call have passed kube-scheduler's
own filters, which an autoscaler simulates: for the autoscaler, a pod that is refused here already fits.
Whether a new node would help is computed in a thread of its own, so that no reply waits for it."""

import logging
from collections import deque
from dataclasses import replace
from itertools import product
from threading import Event

from scheduler_ext.background import OnDemand
from scheduler_ext.core.filters import REASONS
from scheduler_ext.core.framework.refusal import INVALID_REQUEST
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.counters import Counter
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.new_nodes import CURES, NewNodes

log = logging.getLogger(__name__)

# Answers in the queue; each holds a snapshot that is replaced soon.
_WAITING = 512
_READ_EVERY_S = 0.1
# An invalid request concerns no autoscaler.
_BLIND = tuple(reason.text for reason in REASONS if reason is not INVALID_REQUEST)


class BlindRejections(OnDemand):
    """The filter calls that refused every node. Safe to use from any thread."""

    rejections = Counter(
        "gpu_extender_autoscaler_blind_rejections",
        "Filter calls that refused every node, once for each reason but an invalid request. autoscaler: "
        "whether a new node like one of these would take the pod (curable), none would (incurable), or "
        "unknown. A cluster autoscaler expects the pod to fit on one of them, and adds none.",
        ("reason", "autoscaler"),
        product(_BLIND, CURES),
    )

    def __init__(self, new_nodes: NewNodes) -> None:
        super().__init__("blind-rejections")
        self._new_nodes = new_nodes
        self._waiting: deque[Answer] = deque()
        self._came = Event()

    def answered(self, verb: str, answer: Answer) -> None:
        """Note an answer; part of the request, so it returns at once."""
        if verb != "filter" or answer.nodes_out or answer.problem is not None or not answer.rejected:
            return
        if answer.basis is None or len(self._waiting) >= _WAITING:
            for reason in answer.rejected:
                self.rejections.inc(reason, "unknown")
        else:
            self._waiting.append(replace(answer, body=b"", args=None))
            self._came.set()
            self.need()

    def stop(self, wait_s: float = 0.0) -> None:
        self.stopped.set()
        self._came.set()
        super().stop(wait_s)

    def run(self) -> None:
        while not self.stopped.wait(_READ_EVERY_S):
            self._came.wait()
            self._came.clear()
            self.read()

    def read(self) -> None:
        """Count what waits."""
        while self._waiting:
            answer = self._waiting.popleft()
            assert answer.basis is not None
            request = answer.basis.decision.request
            if isinstance(request, GpuRequest) and request.is_placeholder:
                continue
            try:
                cures = self._new_nodes.by_reason(answer.basis.decision, answer.basis.rows)
            except Exception:
                log.exception("a refusal was not counted")
                continue
            for reason, cure in cures.items():
                self.rejections.inc(reason, cure)
