"""Labels nodes with NVIDIA GPUs that no other label brings an agent to, and nodes for memory shares. NVIDIA's
device plugin alone sets no label, and a DaemonSet selects nodes by labels."""

import logging
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from threading import Lock
from typing import Any

from scheduler_ext.background import Background
from scheduler_ext.cluster.client.retry import Backoff, Retry
from scheduler_ext.cluster.client.transport import MERGE, RefusedError, Transport, is_transient
from scheduler_ext.cluster.events.event_recorder import WriteEvent, event_body
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.node_labels import AGENT_LABEL, agent_label
from scheduler_ext.core.node.unreported import lacks_agent
from scheduler_ext.counters import Counter

log = logging.getLogger(__name__)

LABELLED = "GPUNodeLabelled"
# How often nodes are looked at.
EVERY_S = 1.0
# The labels of a new node arrive one after the other: those of clouds and of NVIDIA's operator have time.
SETTLE_S = 5.0
# The most nodes that are labelled between two looks; each starts a pod.
_MOST = 20
_CALL_S = 5.0


class AgentLabels(Background):
    """Labels while `active` says that this extender writes to the cluster, unless `allowed` is False. `facts`
    has the latest labels of each Node and their version; `say` writes an Event. No label is ever changed or
    removed: the API server takes the write for that version of the Node only."""

    labels = Counter(
        "gpu_extender_agent_labels",
        "Nodes with NVIDIA GPUs that the extender labelled so that an agent runs there (written), and tries "
        "that the API server refused or did not answer (failed); each node is tried again at growing "
        "intervals up to 30 s.",
        ("result",),
        ("written", "refused", "failed"),
    )

    def __init__(
        self,
        transport: Transport,
        active: Callable[[], bool],
        allowed: bool,
        facts: Mapping[str, NodeFacts],
        say: WriteEvent,
    ) -> None:
        super().__init__("agent-labels")
        self._transport = transport
        self._active = active
        self._allowed = allowed
        self._facts = facts
        self._say = say
        self._lock = Lock()
        # By node, the next one first: its uid, and since when it waits.
        self._waiting: dict[str, tuple[str | None, float]] = {}
        self._retry = Retry(transport.server, Backoff(), probes=False)
        # Why nodes cannot be labelled; logged once.
        self._problem: str | None = None

    def follow(
        self, infos: Mapping[str, NodeInfo | None], records: Mapping[str, NodeRecord | None]
    ) -> set[str]:
        """Look at nodes that changed. Returns those of them that nothing brings an agent to."""
        found: dict[str, str | None] = {}
        for name, info in infos.items():
            record = records[name]
            if info is not None and record is not None and lacks_agent(info, has_nvidia=record.has_nvidia):
                found[name] = info.uid
        now = time.monotonic()
        with self._lock:
            for name in infos.keys() - found:
                self._waiting.pop(name, None)
            for name, uid in found.items():
                self._waiting.setdefault(name, (uid, now))
        return set(found)

    def why_not(self) -> str | None:
        """Why nodes are not labelled; None while they are."""
        if not self._allowed:
            return "the extender does not label it, because inventory.labelNodes is false"
        return f"the extender cannot label it: {self._problem}" if self._problem is not None else None

    def run(self) -> None:
        while not self.stopped.wait(EVERY_S):
            if self._active() and not self._retry.left_s():
                try:
                    self._label_all()
                except Exception:
                    log.exception("nodes are not labelled: unexpected error; trying again")

    def _label_all(self) -> None:
        settled = time.monotonic() - SETTLE_S
        with self._lock:
            due = [(name, uid) for name, (uid, since) in self._waiting.items() if since <= settled]
            if not self._waiting:
                # What refused a node that is gone may accept the next one.
                self._problem = None
        for name, uid in due[:_MOST]:
            if self.stopped.is_set() or not self._label(name, uid):
                return

    def _label(self, name: str, uid: str | None) -> bool:
        """Label one node; False where the next one has to wait as well."""
        facts = self._facts.get(name)
        if facts is None or agent_label(facts.labels) != "lacks":
            self._drop(name)
            return True
        body = {"metadata": {"labels": {AGENT_LABEL: "true"}, "resourceVersion": facts.version}}
        try:
            self._transport.send("PATCH", f"/api/v1/nodes/{name}", body, MERGE, timeout_s=_CALL_S)
        except ClusterError as error:
            return self._not_labelled(name, error)
        self._drop(name)
        self._retry.reset()
        self.labels.inc("written")
        if self._problem is not None:
            log.info("nodes are labelled again")
            self._problem = None
        self._say(lambda: _event(name, uid))
        return True

    def _not_labelled(self, name: str, error: ClusterError) -> bool:
        status = error.status if isinstance(error, RefusedError) else None
        if status == HTTPStatus.NOT_FOUND:
            self._drop(name)
            return True
        # The others come first: what refuses one node may accept them.
        with self._lock:
            if (waiting := self._waiting.pop(name, None)) is not None:
                self._waiting[name] = waiting
        if status == HTTPStatus.CONFLICT:
            # The Node has changed since; the watch brings its labels.
            return True
        self.labels.inc("failed" if is_transient(error) else "refused")
        if self._problem is None:
            log.warning(
                "node %s needs an agent and is not labelled %s=true, trying again: %s",
                name,
                AGENT_LABEL,
                error,
            )
        self._problem = str(error)
        self._retry.failed(error)
        return False

    def _drop(self, name: str) -> None:
        with self._lock:
            self._waiting.pop(name, None)


def _event(name: str, uid: str | None) -> dict[str, Any]:
    note = (
        "the node has NVIDIA GPUs or is labelled for memory shares, and had no label that brings an agent to "
        f"it, so it is labelled {AGENT_LABEL}=true; false as its value keeps the agent away"
    )
    regarding = {"kind": "Node", "name": name, "uid": uid or name}
    return event_body("Normal", LABELLED, "LabelNode", note, regarding)
