"""What every reply of the inspection listener has in common: for browsers on this host, and no other page.

A listener on loopback is out of other hosts' reach, not of a web page's: a name that first leads to the
page's own server and then to 127.0.0.1 (DNS rebinding) makes the browser take us for that server. What it
cannot do is name us rightly in Host.
"""

from __future__ import annotations

import logging

from flask import Flask, Response, request

from scheduler_ext.server.server_options import is_loopback
from scheduler_ext.wire.extender import encode_json

log = logging.getLogger(__name__)

# Trusted Types: no text ever becomes markup or script, but for the fixed templates of lit-html.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types lit-html"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def loopback_only(app: Flask) -> None:
    """Refuse (403) who asks for another host than this one, and tell browsers what no page may do."""

    @app.before_request
    def refuse_other_hosts() -> Response | None:
        host = request.environ.get("HTTP_HOST", "")
        if is_loopback(_without_port(host)):
            return None
        message = f"Host: {host[:80]!r} is not this host; ask for 127.0.0.1, [::1] or localhost"
        log.warning("inspect refused: 403 %s", message)
        return Response(encode_json({"error": message}), 403, content_type="application/json")

    @app.after_request
    def add_headers(response: Response) -> Response:
        response.headers.update(_HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        return response


def _without_port(host: str) -> str:
    name, colon, port = host.lower().rpartition(":")
    return name if colon and (not port or port.isdecimal()) else host.lower()
