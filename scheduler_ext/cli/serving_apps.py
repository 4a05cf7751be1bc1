"""The applications of `scheduler-ext serve`, over one extender and the source of its nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.waiting import WaitingPods
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.heap import share_one_arena
from scheduler_ext.server.app import api_app, health_app, inspect_app
from scheduler_ext.server.explaining import Explaining
from scheduler_ext.server.inspect_routes import explanations_blueprint, questions_blueprint
from scheduler_ext.server.metrics.registry import Metrics, gpu_text
from scheduler_ext.server.runbook_routes import runbooks_blueprint
from scheduler_ext.server.server_options import Apps
from scheduler_ext.server.serving import Served, Serving, servings
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.whatif.schedulable import SchedulableReplicas
from scheduler_ext.wire.config import Configuration

if TYPE_CHECKING:
    from scheduler_ext.cluster.live import LiveInventory

BuildSource = Callable[[Extender, Configuration, Serving], "InventorySource | LiveInventory"]
"""Makes the source of an extender's nodes, which features follow; runs in the worker process."""


def serving_apps(
    config: Configuration, build_source: BuildSource, certificate_file: Path | None, demo_folder: Path | None
) -> Apps:
    """The three applications, at work; `demo_folder` as in Served. Raises InventoryError, ClusterError."""
    share_one_arena()
    # Other threads decode for long stretches; waiting requests get the interpreter sooner this way.
    sys.setswitchinterval(0.0002)
    features = servings(config)
    extender = Extender(config, features)
    source = build_source(extender, config, features)

    known = extender.record, config, extender.preemption_answers, extender.new_nodes
    explainer = Explainer(source, *known, features.wait_of, features.group_of)
    explaining = Explaining(explainer)
    waiting = WaitingPods(source, extender.record, explainer)
    replicas = SchedulableReplicas(source, config)
    gpus = gpu_text(source, config)
    served = Served(config, source, extender, explaining, waiting, gpus, features, demo_folder)
    parts = features.join(served)
    metrics = Metrics(
        source,
        config,
        waiting.reasons,
        certificate_file,
        partial(waiting.longest, most=config.metrics.waiting_pods),
        partial(waiting.by_workload, config.metrics.waiting_pods),
        replicas.counts,
        gpus,
        parts,
    )
    loops = [replicas, *parts.loops]
    for each in (extender.record, *loops):
        each.start()

    def close() -> None:
        for each in loops:
            each.stop()
        source.stop()
        for each in (extender.record, *loops):
            each.stop(1.0)

    deadline_s = config.server.duration_s("decision_deadline")
    return Apps(
        api=api_app(extender, source.binder, metrics, config.server.max_body_bytes, deadline_s, features),
        health=health_app(source, metrics),
        inspect=inspect_app(
            explanations_blueprint(explaining),
            questions_blueprint(source, config, explainer, waiting),
            runbooks_blueprint(),
            *parts.routes,
        ),
        close=close,
    )
