"""The Flask applications of the three listeners: thin, every decision is made elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from flask import Blueprint, Flask, Response, request
from werkzeug.exceptions import HTTPException

from scheduler_ext import __version__
from scheduler_ext.binding.binder import Binder
from scheduler_ext.core.errors import RequestError
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.extender import Extender
from scheduler_ext.server.accepted import check_content, refuse_browsers
from scheduler_ext.server.http.body import BODY_RECEIVED, BodyError, read_body, received_at
from scheduler_ext.server.loopback_only import loopback_only
from scheduler_ext.server.metrics import CONTENT_TYPE, Metrics
from scheduler_ext.server.replies import json_reply, problem_reply, text_reply
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
Verb = Callable[[bytes, float], Answer]

# environ key; the transport releases the environ only when the reply is out.
ANSWER = "scheduler_ext.answer"


def api_app(
    extender: Extender,
    binder: Binder | None,
    metrics: Metrics,
    max_body_bytes: int,
    decision_deadline_s: float,
) -> Flask:
    """kube-scheduler's verbs and ``/version``; ``binder``, if there is one, has its own deadline."""
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

    @app.post("/filter")
    def filter_nodes() -> Response:
        return serve("filter", extender.filter)

    @app.post("/prioritize")
    def prioritize_nodes() -> Response:
        return serve("prioritize", extender.prioritize)

    @app.post("/preempt")
    def preempt_pods() -> Response:
        return serve("preempt", extender.preemptor.preempt)

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

    # Both are in PROBES of the server's options.
    @app.get("/livez")
    def livez() -> Response:
        return text_reply(200, "ok")

    @app.get("/readyz")
    def readyz() -> Response:
        checks = source.status().checks
        ready = all(check.passed for check in checks)
        if "verbose" not in request.args:
            return text_reply(200 if ready else 503, "ok" if ready else "not ready")
        lines = [f"[{'+' if check.passed else '-'}]{check.name} {check.says}" for check in checks]
        lines.append("readyz check passed" if ready else "readyz check failed")
        return text_reply(200 if ready else 503, "\n".join(lines) + "\n")

    @app.get("/metrics")
    def scrape() -> Response:
        return Response(metrics.render(received_at(request.environ)), content_type=CONTENT_TYPE)

    return app


def inspect_app(*questions: Blueprint) -> Flask:
    """The loopback listener for questions about decisions, and the live page."""
    app = _bare_app("inspect")
    loopback_only(app)
    for blueprint in questions:
        app.register_blueprint(blueprint)
    return app


def _bare_app(name: str) -> Flask:
    app = Flask(f"scheduler_ext.{name}", static_folder=None)

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
