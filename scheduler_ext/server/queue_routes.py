"""The routes of the queue: the whole one for questions, and its first rows for the page."""

import time

from flask import Blueprint, Response, request

from scheduler_ext.server.http.body import received_at
from scheduler_ext.server.replies import compressed
from scheduler_ext.server.shared_answers import SharedAnswers
from scheduler_ext.views.queue.queue_list import QueueView
from scheduler_ext.wire.extender_args import encode_json

_MOST_ON_PAGE = 200


def queue_blueprint(queue: QueueView) -> Blueprint:
    """Routes about the pods that wait, in their order."""
    routes = Blueprint("queue", __name__)
    answers = SharedAnswers[bytes]()

    @routes.get("/queue")
    def whole() -> Response:
        return listed(None)

    @routes.get("/page/queue")
    def first() -> Response:
        return listed(_MOST_ON_PAGE)

    def listed(most: int | None) -> Response:
        namespace = request.args.get("namespace") or None
        body = answers.answer(
            (namespace, most),
            received_at(request.environ),
            lambda: encode_json(queue.listed(namespace, time.time(), most)),
        )
        return compressed(Response(content_type="application/json"), body)

    return routes
