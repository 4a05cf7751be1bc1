"""Creates placeholders for needed nodes, and removes those that nothing needs any longer. Its only state is
in the cluster, so another extender continues where this one ends."""

import logging
import time
from collections import Counter as Tally
from collections.abc import Container, Mapping, Sequence
from http import HTTPStatus
from typing import Protocol
from urllib.parse import quote

from scheduler_ext.background import Background
from scheduler_ext.cluster.client.retry import Backoff, Retry
from scheduler_ext.cluster.client.transport import JSON, RefusedError, Transport, is_transient
from scheduler_ext.cluster.events.event_recorder import WriteEvent, event_body
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.new_nodes import NewNodes
from scheduler_ext.extender.record import Record
from scheduler_ext.features.autoscaling.counters import PLACEHOLDERS
from scheduler_ext.features.autoscaling.placeholders.hourly_budget import HourlyBudget
from scheduler_ext.features.autoscaling.placeholders.needed_nodes import (
    NeededNode,
    PlaceholderPlanner,
    RefusedPod,
)
from scheduler_ext.features.autoscaling.placeholders.placeholder_job import (
    LABELS,
    WAITING_UID,
    placeholder_job,
)
from scheduler_ext.features.autoscaling.settings import AutoscalerSection
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod.pod_claims import ClaimLookup

log = logging.getLogger(__name__)

CREATED = "GPUPlaceholderCreated"
# How often needed and existing placeholders are compared; less than a node needs to start.
EVERY_S = 2.0
_CALL_S = 5.0
# Pods that are looked at in a round: a few placeholders are created for the first of them.
_MOST_PODS = 200


class PlaceholderCluster(Protocol):
    """What the extender knows of the cluster."""

    @property
    def snapshot(self) -> Snapshot | None: ...

    def pending(self) -> Sequence[PendingPod]: ...

    def node_facts(self) -> Mapping[str, NodeFacts]: ...

    def active(self) -> bool: ...

    @property
    def claims(self) -> ClaimLookup | None: ...


def _urgency(waiting: PendingPod, present: Container[str]) -> tuple[bool, int, float]:
    """Pods that have a placeholder come first, then high priorities and long waits."""
    pod = waiting.pod
    return pod.uid not in present, -pod.priority, pod.created_at or 0.0


class PlaceholderWriter(Background):
    """Writes while the extender is active. `say` writes an Event."""

    placeholders = PLACEHOLDERS

    def __init__(
        self,
        transport: Transport,
        cluster: PlaceholderCluster,
        record: Record,
        new_nodes: NewNodes,
        config: Configuration,
        say: WriteEvent,
    ) -> None:
        super().__init__("placeholders")
        self._transport = transport
        self._cluster = cluster
        self._record = record
        self._new_nodes = new_nodes
        self._config = config
        self._sizing = config.sizing()
        self._say = say
        settings = self._settings = config.of(AutoscalerSection).placeholders
        self._after_s = settings.duration_s("after")
        self._ttl_s = settings.duration_s("ttl")
        self._jobs = f"/apis/batch/v1/namespaces/{settings.namespace}/jobs"
        self._budget = HourlyBudget(transport, settings.namespace, settings.per_hour)
        self._retry = Retry(transport.server, Backoff(), probes=False)
        # The placeholders of the last look, each with the uid of its pod; None: not looked at yet.
        self._known: dict[str, str] | None = None
        self._tries: Tally[str] = Tally()
        # Those that the API server refused: the budget is for others first.
        self._refused_names: set[str] = set()
        # When each waiting pod was last seen behind its gates, by uid.
        self._gated_at: dict[str, float] = {}
        self._problem: str | None = None

    def run(self) -> None:
        while not self.stopped.wait(EVERY_S):
            snapshot = self._cluster.snapshot
            if snapshot is None or not self._cluster.active():
                # Another extender may change them meanwhile.
                self._known = None
            elif not self._retry.left_s():
                self._look(snapshot)

    def _look(self, snapshot: Snapshot) -> None:
        try:
            self._reconcile(snapshot)
        except ClusterError as error:
            self._failed(error)
        except Exception:
            log.exception("placeholders: unexpected error; trying again")
        else:
            self._retry.reset()
            if self._problem is not None:
                log.info("placeholders are written again")
                self._problem = None

    def _reconcile(self, snapshot: Snapshot) -> None:
        refused, undecided = self._refused()
        if not refused and self._known is not None and not self._known:
            return
        existing = self._existing()
        for name, uid in (self._known or {}).items():
            if name not in existing:
                self.placeholders.inc("expired")
                self._tries[uid] += 1
        # At once, so that what fails below lets none of them expire again.
        known = self._known = dict(existing)
        planner = PlaceholderPlanner(
            snapshot,
            self._cluster.node_facts(),
            self._new_nodes,
            self._sizing,
            self._cluster.claims,
            self._tries,
            existing,
        )
        present = set(existing.values())
        refused.sort(key=lambda each: _urgency(each.waiting, present))
        wanted = planner.needed(refused[:_MOST_PODS], self._settings.most)
        needed = {each.name: each for each in wanted}
        for name, uid in existing.items():
            if name not in needed and uid not in undecided:
                self._remove(name)
                del known[name]
        waiting = {each.waiting.pod.uid for each in refused}
        self._tries = Tally({uid: count for uid, count in self._tries.items() if uid in waiting})
        self._refused_names &= needed.keys()
        new = [each for name, each in needed.items() if name not in existing]
        self._create(sorted(new, key=lambda each: each.name in self._refused_names), known)

    def _refused(self) -> tuple[list[RefusedPod], set[str]]:
        """The pods that wait because of the extender alone, and for long enough; and the uids of those that
        this extender was not asked about, as after a change of the active one."""
        now = time.time()
        found, undecided, gated_at = [], set(), {}
        for each in self._cluster.pending():
            pod = each.pod
            # No scheduler tried it before.
            since = now if each.gated else self._gated_at.get(pod.uid)
            if since is not None:
                gated_at[pod.uid] = since
            if (
                each.scheduler_name not in self._config.scheduler_names
                or each.gated
                or pod.terminating
                or each.invalid is not None
                or each.nominated_node is not None
                or now - max(pod.created_at or now, since or 0.0) < self._after_s
            ):
                continue
            entry = self._record.of_pod(pod)
            if entry is None or not entry.filters:
                undecided.add(pod.uid)
            elif entry.nodes_in and not entry.nodes_out and entry.offered is not None:
                found.append(RefusedPod(each, entry.offered.passed))
        self._gated_at = gated_at
        return found, undecided

    def _existing(self) -> dict[str, str]:
        """The placeholders, each with the uid of its pod."""
        found = self._transport.json(self._jobs, timeout_s=_CALL_S)
        present = [job["metadata"] for job in found.get("items") or ()]
        return {
            each["name"]: (each.get("annotations") or {}).get(WAITING_UID, "")
            for each in present
            if not each.get("deletionTimestamp") and LABELS.items() <= (each.get("labels") or {}).items()
        }

    def _remove(self, name: str) -> None:
        """Remove a placeholder with its pod."""
        body = {"propagationPolicy": "Background"}
        try:
            self._transport.send("DELETE", f"{self._jobs}/{quote(name)}", body, JSON, timeout_s=_CALL_S)
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return
        self.placeholders.inc("removed")

    def _create(self, wanted: Sequence[NeededNode], known: dict[str, str]) -> None:
        """Create as many as the budget allows, and add them to `known`."""
        allowed = self._budget.take(len(wanted)) if wanted else 0
        if held_back := len(wanted) - allowed:
            self.placeholders.inc("over-budget", by=held_back)
        refused: list[RefusedError] = []
        for each in wanted[:allowed]:
            job = placeholder_job(each, self._config.scheduler_names[0], self._ttl_s)
            try:
                self._transport.send("POST", self._jobs, job, JSON, timeout_s=_CALL_S)
            except RefusedError as error:
                # At a conflict, another extender was faster.
                if error.status != HTTPStatus.CONFLICT:
                    if is_transient(error):
                        raise
                    # It may concern this one alone, which has the tolerations of its pod.
                    self._refused_names.add(each.name)
                    refused.append(error)
                    continue
            else:
                self.placeholders.inc("created")
                self._tell(each)
            known[each.name] = each.pod.pod.uid
        if refused:
            self._budget.release(len(refused))
            raise refused[0]

    def _tell(self, needed: NeededNode) -> None:
        pod, kind = needed.pod.pod, ", ".join(f"{key}={value}" for key, value in needed.labels)
        note = (
            f"no node takes the pod, and a new one like {needed.example} would; placeholder {needed.name} "
            f"asks the autoscaler for it ({kind})"
        )
        regarding = {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        self._say(lambda: event_body("Normal", CREATED, "CreatePlaceholder", note, regarding))

    def _failed(self, error: ClusterError) -> None:
        self.placeholders.inc("failed" if is_transient(error) else "refused")
        if self._problem is None:
            log.warning("placeholders are not written, trying again: %s", error)
        self._problem = str(error)
        self._retry.failed(error)
