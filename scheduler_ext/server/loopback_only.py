"""Headers and checks of the inspection listener: only for browsers on this host, and no other page.

A listener on loopback is out of other hosts' reach, but not out of a web page's reach: a name that first
resolves to the page's own server and then to 127.0.0.1 (DNS rebinding) makes the browser take this server for
the page's. Such a request still has the page's name in Host. A page can also send requests here under its own
name, which the browser puts into Origin and Sec-Fetch-Site.
"""

from __future__ import annotations

from flask import Flask, Response, request

from scheduler_ext.core.errors import RequestError
from scheduler_ext.server.accepted import refuse_other_pages
from scheduler_ext.server.replies import problem_reply
from scheduler_ext.server.server_options import is_loopback

# Trusted Types: no text ever becomes markup or script, except the fixed templates of lit-html.
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
    """Refuse (403) requests for another host and those of other web pages, and limit in headers what a page
    may do.
    """

    @app.before_request
    def refuse_others() -> Response | None:
        host = request.environ.get("HTTP_HOST", "")
        try:
            if not is_loopback(_without_port(host)):
                problem = f"Host: {host[:80]!r} is not this host; ask for 127.0.0.1, [::1] or localhost"
                raise RequestError(403, problem)
            refuse_other_pages(request.environ)
        except RequestError as error:
            return problem_reply(error.status, str(error), "inspect")
        return None

    @app.after_request
    def add_headers(response: Response) -> Response:
        response.headers.update(_HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        return response


def _without_port(host: str) -> str:
    name, colon, port = host.lower().rpartition(":")
    return name if colon and (not port or port.isdecimal()) else host.lower()
