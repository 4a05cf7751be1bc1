"""Replies of all listeners: JSON, also for errors."""

import gzip
import logging

from flask import Response, request

from scheduler_ext.wire.extender_args import encode_json

log = logging.getLogger(__name__)

# Below this size, compressing costs more than the bytes.
_COMPRESSED_FROM_BYTES = 4096


def problem_reply(status: int, message: str, verb: str) -> Response:
    """The error of a request, also in the log."""
    log.warning("%s refused with %d: %s", verb, status, message)
    return json_reply(status, encode_json({"error": message}))


def json_reply(status: int, body: bytes) -> Response:
    """A body that is JSON already."""
    return Response(body, status=status, content_type="application/json")


def compressed(response: Response, body: bytes) -> Response:
    """The response with this body, compressed if it is large and the client of this request can read that."""
    response.headers["Vary"] = "Accept-Encoding"
    if len(body) >= _COMPRESSED_FROM_BYTES and "gzip" in request.headers.get("Accept-Encoding", ""):
        body = gzip.compress(body, 1)
        response.headers["Content-Encoding"] = "gzip"
    response.set_data(body)
    return response
