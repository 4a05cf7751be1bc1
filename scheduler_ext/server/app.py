"""The Flask applications of the three listeners: thin, every decision is made elsewhere."""

import logging
import time
from collections.abc import Callable
from functools import partial

from flask import Blueprint, Flask, Response, request
from werkzeug.exceptions import HTTPException

from scheduler_ext import __version__
from scheduler_ext.binding.binder import Binder
from scheduler_ext.core.errors import RequestError
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.extender import Extender
from scheduler_ext.server.accepted import check_content, refuse_browsers, refuse_other_pages
from scheduler_ext.server.http.body import BODY_RECEIVED, BodyError, read_body, received_at
from scheduler_ext.server.metrics.registry import CONTENT_TYPE, Metrics
from scheduler_ext.server.replies import json_reply, problem_reply
from scheduler_ext.server.server_options import is_loopback
from scheduler_ext.server.serving import Serving
from scheduler_ext.sources.source_status import Source
from scheduler_ext.wire.binding import encode_binding_result
from scheduler_ext.wire.extender_args import encode_json

log = logging.getLogger(__name__)

# kube-scheduler sends application/json; curl and simple clients send the second by default.
_CONTENT_TYPES = ("", "application/json", "application/x-www-form-urlencoded", "application/octet-stream")
# kube-scheduler shows it on the pod.
NO_BIND = encode_binding_result(
    "this extender does not bind: set bind.enabled in its configuration, or take bindVerb out of "
    "kube-scheduler's"
)
_TEXT = "text/plain; charset=utf-8"
Verb = Callable[[bytes, float], Answer]

# Trusted Types: no text ever becomes markup or script, except the fixed templates of lit-html.
_INSPECT_HEADERS = {
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

# environ key; the transport releases the environ only when the reply is out.
ANSWER = "scheduler_ext.answer"


def api_app(
    extender: Extender,
    binder: Binder | None,
    metrics: Metrics,
    max_body_bytes: int,
    decision_deadline_s: float,
    features: Serving,
) -> Flask:
    """kube-scheduler's verbs and `/version`; `binder`, if there is one, has its own deadline."""
    app = _bare_app("api")

    def serve(name: str, verb: Verb, deadline_s: float = decision_deadline_s) -> Response:
        started = time.monotonic()
        code = 200
        try:
            body = read_body(request.environ, max_body_bytes)
            started = request.environ[BODY_RECEIVED]
            refuse_browsers(request.environ)
            check_content(request.environ, _CONTENT_TYPES, "application/json")
            answer = verb(body, started + deadline_s)
            request.environ[ANSWER] = answer
            metrics.count(name, answer)
            extender.record.answered(name, answer)
            features.answered(name, answer)
            if answer.problem is not None:
                log.warning("GPU request is invalid: %s", answer.problem)
            return json_reply(200, answer.body)
        except (BodyError, RequestError) as error:
            code = error.status
            return problem_reply(code, str(error), name)
        except Exception:
            code = 500
            log.exception("%s failed", name)
            return json_reply(500, encode_json({"error": "internal error; see the server's log"}))
        finally:
            metrics.observe(name, code, time.monotonic() - started)

    decisions: dict[str, Verb] = {
        "filter": extender.filter,
        "filter/best": partial(extender.filter, best_only=True),
        "prioritize": extender.prioritize,
        "preempt": extender.preemptor.preempt,
    }
    for path, verb in decisions.items():
        answer = partial(serve, path.partition("/")[0], verb)
        app.add_url_rule(f"/{path}", path, answer, methods=["POST"])

    @app.post("/bind")
    def bind_pod() -> Response:
        if binder is None:
            return serve("bind", lambda body, deadline: Answer(NO_BIND, 1, 0))
        return serve("bind", binder.bind, binder.deadline_s)

    @app.get("/version")
    def version() -> Response:
        return json_reply(200, encode_json({"name": "scheduler-ext", "version": __version__}))

    return app


def health_app(source: Source, metrics: Metrics) -> Flask:
    """Liveness, readiness and metrics."""
    app = _bare_app("health")

    # Both are answered while the listener is full (http_server.py).
    @app.get("/livez")
    def livez() -> Response:
        return Response("ok", content_type=_TEXT)

    @app.get("/readyz")
    def readyz() -> Response:
        checks = source.status().checks
        ready = all(check.passed for check in checks)
        text = "ok" if ready else "not ready"
        if "verbose" in request.args:
            lines = [f"[{'+' if check.passed else '-'}]{check.name} {check.says}\n" for check in checks]
            text = "".join(lines) + f"readyz check {'passed' if ready else 'failed'}\n"
        return Response(text, 200 if ready else 503, content_type=_TEXT)

    @app.get("/metrics")
    def scrape() -> Response:
        return Response(metrics.render(received_at(request.environ)), content_type=CONTENT_TYPE)

    return app


def inspect_app(*questions: Blueprint) -> Flask:
    """The loopback listener for questions about decisions, and the live page; only for clients on this host.
    A listener on loopback is out of other hosts' reach, but not out of a web page's reach: a name that first
    resolves to the page's own server and then to 127.0.0.1 (DNS rebinding) makes the browser take this server
    for the page's. Such a request still has the page's name in Host. A page can also send requests here under
    its own name, which the browser puts into Origin and Sec-Fetch-Site."""
    app = _bare_app("inspect")

    @app.before_request
    def refuse_others() -> Response | None:
        host = request.environ.get("HTTP_HOST", "")
        name, colon, port = host.lower().rpartition(":")
        try:
            if not is_loopback(name if colon and (not port or port.isdecimal()) else host.lower()):
                problem = f"Host: {host[:80]!r} is not this host; use 127.0.0.1, [::1] or localhost"
                raise RequestError(403, problem)
            refuse_other_pages(request.environ)
        except RequestError as error:
            return problem_reply(error.status, str(error), "inspect")
        return None

    @app.after_request
    def add_headers(response: Response) -> Response:
        response.headers.update(_INSPECT_HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    for blueprint in questions:
        app.register_blueprint(blueprint)
    return app


def _bare_app(name: str) -> Flask:
    app = Flask(f"scheduler_ext.{name}", static_folder=None)
    # Two slashes are another path, and no redirect.
    app.url_map.merge_slashes = False

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        message = f"{error.code} {error.name}: {request.method} {request.path[:200]}"
        log.warning("%s refused: %s", name, message.encode("unicode_escape").decode())
        response = json_reply(error.code or 500, encode_json({"error": message}))
        for header, value in error.get_headers():
            if header == "Allow":
                response.headers[header] = value
        return response

    return app
