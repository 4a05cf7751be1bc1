"""The page over nodes that a test chooses, stale and missing ones too, which no inventory file can hold."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from werkzeug.serving import WSGIRequestHandler, make_server

from scheduler_ext.core.gpu.readings import NO_READINGS, NodeReadings
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo, PendingPod
from scheduler_ext.core.node.pod_facts import FactsOfPods
from scheduler_ext.core.planning.plan import Plan
from scheduler_ext.core.queue.run_times import PastRuns
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.extender.extender import Extender
from scheduler_ext.server.app import inspect_app
from scheduler_ext.server.explaining import Explaining
from scheduler_ext.server.page.feed import PageFeed
from scheduler_ext.server.page.pod_routes import pods_blueprint
from scheduler_ext.server.page.routes import page_blueprint
from scheduler_ext.server.queue_routes import queue_blueprint
from scheduler_ext.sources.source_status import Check, Problem, SourceStatus
from scheduler_ext.views.queue.queue_list import QueueView
from scheduler_ext.views.queue.start_estimates import StartEstimates
from scheduler_ext.wire.config import Configuration


class _Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        pass


class PageServer:
    """A source with the nodes that a test sets, an extender on it, and the page; `pending_lines` are shown
    unchanged, and `pods` are those that wait.
    """

    binder = None
    claims = None

    def __init__(
        self,
        infos: Iterable[NodeInfo],
        pending_lines: Sequence[dict[str, Any]] = (),
        pods: Sequence[PendingPod] = (),
        readings: NodeReadings = NO_READINGS,
        config: Configuration | None = None,
    ) -> None:
        self.readings = readings
        config = config or Configuration()
        self.pods = pods
        self.extender = Extender(config)
        self.extender.replace_nodes(infos)
        self.pending_lines = list(pending_lines)
        self.problems: Sequence[Problem] = ()
        self.facts: FactsOfPods = {}
        # As before the first inventory.
        self.hidden = False
        resources, percent = config.resource_names(), config.memory.headroom_percent
        self.feed = PageFeed(
            self,
            self.extender.record,
            lambda: self.pending_lines,
            resources,
            percent,
            config.idle_after_s(),
        )
        explainer = Explainer(self, self.extender.record, config, self.extender.places)
        self.planned: Plan | None = None
        self.past_runs: PastRuns | None = None
        queue = QueueView(self, lambda: self.pending_lines, StartEstimates(self, config, 60.0))
        app = inspect_app(
            page_blueprint(self.feed, config),
            pods_blueprint(self, Explaining(explainer)),
            queue_blueprint(queue),
        )
        self._server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Silent)
        self.url = f"http://127.0.0.1:{self._server.server_port}/page/"

    @property
    def snapshot(self) -> Snapshot | None:
        return None if self.hidden else self.extender.snapshot

    def pending(self) -> Sequence[PendingPod]:
        # Lines alone stand for pods of which only the number matters.
        return self.pods or [None] * len(self.pending_lines)  # type: ignore[list-item]

    def is_gone(self, uid: str) -> bool:
        return False

    def plan(self) -> Plan | None:
        return self.planned

    def node_facts(self) -> Mapping[str, NodeFacts]:
        return {}

    def status(self) -> SourceStatus:
        return SourceStatus(
            checks=[Check("inventory", True)],
            age_s=0.0,
            problems=self.problems,
            readings=self.readings,
            facts=self.facts,
            past_runs=self.past_runs,
        )

    def __enter__(self) -> Self:
        self.feed.start()
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()
        self.feed.stop()
