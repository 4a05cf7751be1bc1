"""The inspection listener's answers about the cluster: GPUs, their holders, waiting pods, and a dump."""

from flask import Blueprint, Response, request

from scheduler_ext.core.errors import RequestError
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.waiting import Waiting, pod_list
from scheduler_ext.server.replies import json_reply, problem_reply
from scheduler_ext.sources.source_status import Source
from scheduler_ext.views.ledger_dump import ledger_dump
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.extender_args import encode_json


def questions_blueprint(
    source: Source, config: Configuration, explainer: Explainer, waiting: Waiting
) -> Blueprint:
    """All read-only routes."""
    routes = Blueprint("questions", __name__)
    resources = config.resource_names()

    def infos() -> list[NodeInfo]:
        snapshot = source.snapshot
        return [node.info for node in snapshot.nodes.values()] if snapshot is not None else []

    @routes.get("/inventory")
    def inventory() -> Response:
        name = request.args.get("node")
        asked = [info for info in infos() if name in (None, info.name)]
        return json_reply(200, encode_json(inventory_list(asked, config, source.status().report_ages_s)))

    @routes.get("/pods")
    def pods() -> Response:
        return json_reply(200, encode_json(pod_list(infos(), waiting.lines())))

    @routes.get("/debug/snapshot")
    def snapshot() -> Response:
        try:
            body = explainer.snapshot_file()
        except RequestError as error:
            return problem_reply(error.status, str(error), "snapshot")
        response = Response(body, content_type="application/gzip")
        response.headers["Content-Disposition"] = 'attachment; filename="scheduler-ext-snapshot.json.gz"'
        return response

    @routes.get("/debug/ledger")
    def ledger() -> Response:
        return json_reply(200, encode_json(ledger_dump(source.snapshot, resources)))

    return routes
