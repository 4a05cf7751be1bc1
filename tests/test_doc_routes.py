"""The reference has exactly the answered paths of all listeners."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask import Flask

from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.extender.extender import Extender
from scheduler_ext.features.gangs.queue.routes import queue_blueprint
from scheduler_ext.features.page.pod_routes import pods_blueprint
from scheduler_ext.features.page.routes import page_blueprint
from scheduler_ext.server.app import api_app, health_app, inspect_app
from scheduler_ext.server.explaining import Explaining
from scheduler_ext.server.inspect_routes import explanations_blueprint, questions_blueprint
from scheduler_ext.server.metrics.registry import Metrics
from scheduler_ext.server.runbook_routes import runbooks_blueprint
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.wire.config import Configuration
from tests.pages import PAGE_EVENTS, SAMPLE, page

# Only the paths matter here, not the answers.
UNUSED: Any = None
PAGES = ("wire", "inspection")


@pytest.fixture(scope="module")
def served() -> set[str]:
    config = Configuration()
    extender = Extender(config)
    source = InventorySource(SAMPLE, extender, config.resource_names())
    metrics = Metrics(source, config)
    explaining = Explaining(Explainer(source, extender.record, config))
    apps = (
        api_app(extender, None, metrics, 1000, 60.0),
        health_app(source, metrics),
        inspect_app(
            explanations_blueprint(explaining),
            questions_blueprint(source, config, UNUSED, UNUSED),
            page_blueprint(UNUSED, config),
            queue_blueprint(UNUSED),
            runbooks_blueprint(),
            pods_blueprint(source, explaining),
        ),
    )
    return set().union(*map(paths, apps))


def paths(app: Flask) -> set[str]:
    """Method and path of every route; the page's files are documented elsewhere."""
    return {
        f"{method} {rule.rule}"
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) & {"GET", "POST"}
        if "<" not in rule.rule
    }


def test_the_reference_has_every_path_and_no_other(served: set[str]) -> None:
    text = "".join((*map(page, PAGES), PAGE_EVENTS.read_text()))
    assert set(re.findall(r"`((?:GET|POST) /[a-z/]*)", text)) == served
