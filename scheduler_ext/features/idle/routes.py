"""The route of idle pods."""

import time

from flask import Blueprint, Response, request

from scheduler_ext.features.idle.idle_pods import idle_pod_list
from scheduler_ext.server.shared_answers import SharedAnswers, shared_reply
from scheduler_ext.sources.source_status import Source
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.extender_args import encode_json


def idle_blueprint(source: Source, config: Configuration) -> Blueprint:
    """Routes about pods that compute nothing."""
    routes = Blueprint("idle", __name__)
    answers = SharedAnswers[bytes]()

    def listed(namespace: str | None) -> bytes:
        snapshot, status = source.snapshot, source.status()
        nodes = list(snapshot.nodes.values()) if snapshot is not None else []
        return encode_json(
            idle_pod_list(nodes, config, status.readings, status.facts, time.time(), namespace)
        )

    @routes.get("/idle")
    def idle() -> Response:
        return shared_reply(answers, listed, request.args.get("namespace"))

    return routes
