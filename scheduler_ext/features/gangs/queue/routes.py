"""The routes of the queue: the whole one for questions, and its first rows for the page."""

import time

from flask import Blueprint, Response, request

from scheduler_ext.features.gangs.queue.queue_list import QueueView
from scheduler_ext.server.shared_answers import SharedAnswers, shared_reply
from scheduler_ext.wire.extender_args import encode_json

_MOST_ON_PAGE = 200


def queue_blueprint(queue: QueueView) -> Blueprint:
    """Routes about the pods that wait, in their order."""
    routes = Blueprint("queue", __name__)
    answers = SharedAnswers[bytes]()

    def listed(namespace: str | None, most: int | None) -> bytes:
        return encode_json(queue.listed(namespace, time.time(), most))

    @routes.get("/queue")
    def whole() -> Response:
        return shared_reply(answers, listed, request.args.get("namespace") or None, None)

    @routes.get("/page/queue")
    def first() -> Response:
        return shared_reply(answers, listed, request.args.get("namespace") or None, _MOST_ON_PAGE)

    return routes
