"""The applications of `scheduler-ext serve`, over one extender and the source of its nodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.waiting import Waiting
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.heap import share_one_arena
from scheduler_ext.features.gangs.queue.queue_list import QueueView
from scheduler_ext.features.gangs.queue.routes import queue_blueprint
from scheduler_ext.features.gangs.queue.start_estimates import StartEstimates
from scheduler_ext.features.page.feed import PageFeed
from scheduler_ext.features.page.history import Sample
from scheduler_ext.features.page.pod_routes import pods_blueprint
from scheduler_ext.features.page.routes import page_blueprint
from scheduler_ext.server.app import api_app, health_app, inspect_app
from scheduler_ext.server.explaining import Explaining
from scheduler_ext.server.inspect_routes import explanations_blueprint, questions_blueprint
from scheduler_ext.server.metrics.registry import Metrics
from scheduler_ext.server.runbook_routes import runbooks_blueprint
from scheduler_ext.server.server_options import Apps
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.whatif.schedulable import SchedulableReplicas
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.files import read_file

if TYPE_CHECKING:
    from scheduler_ext.cluster.live import LiveInventory

BuildSource = Callable[[Extender, Configuration], "InventorySource | LiveInventory"]
"""Makes the source of an extender's nodes; runs in the worker process."""


def serving_apps(
    config: Configuration, build_source: BuildSource, certificate_file: Path | None, past: Path | None
) -> Apps:
    """The three applications, at work; `past` is a JSON array of earlier samples. Raises InventoryError,
    ClusterError."""
    share_one_arena()
    # Other threads decode for long stretches; waiting requests get the interpreter sooner this way.
    sys.setswitchinterval(0.0002)
    extender = Extender(config)
    source = build_source(extender, config)
    explainer = Explainer(
        source,
        extender.record,
        config,
        extender.places,
        extender.new_nodes,
        source.gang_wait,
        source.gang_of,
    )
    explaining = Explaining(explainer)
    waiting = Waiting(source, extender.record, explainer)
    replicas = SchedulableReplicas(source, config)
    metrics = _metrics(source, config, waiting, certificate_file, replicas)
    feed = _page_feed(source, extender, waiting, config, past)
    for each in (extender.record, extender.blind_rejections, replicas, feed):
        each.start()

    def close() -> None:
        replicas.stop()
        feed.stop()
        source.stop()
        extender.record.stop(1.0)
        extender.blind_rejections.stop(1.0)

    deadline_s = config.duration_s("server.decisionDeadline")
    return Apps(
        api=api_app(extender, source.binder, metrics, config.server.max_body_bytes, deadline_s),
        health=health_app(source, metrics),
        inspect=inspect_app(
            explanations_blueprint(explaining),
            questions_blueprint(source, config, explainer, waiting),
            queue_blueprint(QueueView(source, waiting.lines, StartEstimates(source, config))),
            page_blueprint(feed, config),
            runbooks_blueprint(),
            pods_blueprint(source, explaining),
        ),
        close=close,
    )


def _metrics(
    source: InventorySource | LiveInventory,
    config: Configuration,
    waiting: Waiting,
    certificate_file: Path | None,
    replicas: SchedulableReplicas,
) -> Metrics:
    longest = partial(waiting.longest, most=config.metrics.waiting_pods)
    workloads = partial(waiting.by_workload, config.metrics.waiting_pods)
    return Metrics(
        source, config, waiting.reasons, certificate_file, longest, workloads, replicas.counts, source.plan
    )


def _page_feed(
    source: InventorySource | LiveInventory,
    extender: Extender,
    waiting: Waiting,
    config: Configuration,
    past: Path | None,
) -> PageFeed:
    feed = PageFeed(
        source,
        extender.record,
        waiting.lines,
        config.resource_names(),
        config.memory.headroom_percent,
        config.idle_after_s(),
    )
    for earlier in json.loads(read_file(past)) if past is not None else ():
        feed.history.add(Sample(*earlier))
    return feed
