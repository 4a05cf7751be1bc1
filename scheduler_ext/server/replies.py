"""Replies of all listeners: JSON, also for errors."""

import logging

from flask import Response

from scheduler_ext.wire.extender_args import encode_json

log = logging.getLogger(__name__)


def problem_reply(status: int, message: str, verb: str) -> Response:
    """The error of a request, also in the log."""
    log.warning("%s refused with %d: %s", verb, status, message)
    return json_reply(status, encode_json({"error": message}))


def json_reply(status: int, body: bytes) -> Response:
    """A body that is JSON already."""
    return Response(body, status=status, content_type="application/json")
