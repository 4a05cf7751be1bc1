"""The routes of the queue: the whole one for questions, and its first rows for the page."""

import time

from flask import Blueprint, Response, request

from scheduler_ext.server.replies import compressed
from scheduler_ext.views.queue.queue_list import QueueView
from scheduler_ext.wire.extender_args import encode_json

_MOST_ON_PAGE = 200


def queue_blueprint(queue: QueueView) -> Blueprint:
    """Routes about the pods that wait, in their order."""
    routes = Blueprint("queue", __name__)

    @routes.get("/queue")
    def whole() -> Response:
        return _listed(queue, None)

    @routes.get("/page/queue")
    def first() -> Response:
        return _listed(queue, _MOST_ON_PAGE)

    return routes


def _listed(queue: QueueView, most: int | None) -> Response:
    namespace = request.args.get("namespace") or None
    listed = queue.listed(namespace, time.time(), most)
    return compressed(Response(content_type="application/json"), encode_json(listed))
