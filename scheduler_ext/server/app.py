"""The Flask applications of the three listeners: thin, every decision is made elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.http import parse_options_header

from scheduler_ext import __version__
from scheduler_ext.core.errors import InventoryError, RequestError
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.binder import Binder
from scheduler_ext.extender.explainer import Explainer
from scheduler_ext.extender.ledger_dump import ledger_dump
from scheduler_ext.extender.listing import inventory_list
from scheduler_ext.extender.pod_list import pod_list
from scheduler_ext.extender.service import Extender
from scheduler_ext.extender.status import Source
from scheduler_ext.extender.waiting import Waiting
from scheduler_ext.server.body import BODY_RECEIVED, BodyError, read_body
from scheduler_ext.server.metrics import CONTENT_TYPE, Metrics
from scheduler_ext.server.server_options import SIDE_BODY_BYTES
from scheduler_ext.wire import kube
from scheduler_ext.wire.binding import encode_binding_result
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.extender import encode_json
from scheduler_ext.wire.objects import read_pods

log = logging.getLogger(__name__)

# kube-scheduler sends application/json; curl and simple clients send the second without being asked.
_CONTENT_TYPES = ("", "application/json", "application/x-www-form-urlencoded", "application/octet-stream")
# kube-scheduler shows it on the pod.
NO_BIND = encode_binding_result(
    "this extender does not bind: set bind.enabled in its configuration, or take bindVerb out of "
    "kube-scheduler's"
)
Verb = Callable[[bytes, float], Answer]

# environ key; the transport lets go of the environ only when the reply is out.
ANSWER = "scheduler_ext.answer"


def api_app(
    extender: Extender,
    binder: Binder | None,
    metrics: Metrics,
    max_body_bytes: int,
    decision_deadline_s: float,
) -> Flask:
    """kube-scheduler's verbs and ``/version``; ``binder``, where there is one, has a deadline of its own."""
    app = _bare_app("api")

    def serve(name: str, verb: Verb, deadline_s: float = decision_deadline_s) -> Response:
        started = time.monotonic()
        code = 200
        try:
            body = read_body(request.environ, max_body_bytes)
            started = request.environ[BODY_RECEIVED]
            _check_content(request.environ)
            answer = verb(body, started + deadline_s)
            request.environ[ANSWER] = answer
            metrics.count(name, answer)
            extender.record.answered(name, answer)
            if answer.problem is not None:
                log.warning("GPU request is invalid: %s", answer.problem)
            return _json(200, answer.body)
        except (BodyError, RequestError) as error:
            code = error.status
            return _problem(code, str(error), name)
        except Exception:
            code = 500
            log.exception("%s failed", name)
            return _json(500, encode_json({"error": "internal error; see the server's log"}))
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
        return _json(200, encode_json({"name": "scheduler-ext", "version": __version__}))

    return app


def health_app(source: Source, metrics: Metrics) -> Flask:
    """Liveness, readiness and metrics."""
    app = _bare_app("health")

    @app.get("/livez")
    def livez() -> Response:
        return _text(200, "ok")

    @app.get("/readyz")
    def readyz() -> Response:
        checks = source.status().checks
        ready = all(check.passed for check in checks)
        if "verbose" not in request.args:
            return _text(200 if ready else 503, "ok" if ready else "not ready")
        lines = [f"[{'+' if check.passed else '-'}]{check.name} {check.says}" for check in checks]
        lines.append("readyz check passed" if ready else "readyz check failed")
        return _text(200 if ready else 503, "\n".join(lines) + "\n")

    @app.get("/metrics")
    def scrape() -> Response:
        return Response(metrics.render(), content_type=CONTENT_TYPE)

    return app


def inspect_app(source: Source, config: Configuration, explainer: Explainer, waiting: Waiting) -> Flask:
    """The loopback listener for questions about decisions."""
    app = _bare_app("inspect")
    resources = config.resource_names()

    def explained(answer: Callable[[], dict[str, Any]]) -> Response:
        try:
            return _json(200, encode_json(_at_most(answer(), request.args.get("nodes"))))
        except RequestError as error:
            return _problem(error.status, str(error), "explain")

    @app.get("/explain")
    def explain_by_name() -> Response:
        return explained(lambda: explainer.of_name(*_namespaced(request.args.get("pod"))))

    @app.post("/explain")
    def explain_manifest() -> Response:
        return explained(lambda: explainer.of_manifest(_posted_pod(request.environ)))

    @app.get("/inventory")
    def inventory() -> Response:
        snapshot = source.snapshot
        infos = [node.info for node in snapshot.nodes.values()] if snapshot is not None else []
        name = request.args.get("node")
        if name is not None:
            infos = [info for info in infos if info.name == name]
        ages_s = source.status().report_ages_s
        return _json(200, encode_json(inventory_list(infos, config, ages_s)))

    @app.get("/pods")
    def pods() -> Response:
        snapshot = source.snapshot
        infos = [node.info for node in snapshot.nodes.values()] if snapshot is not None else []
        return _json(200, encode_json(pod_list(infos, waiting.lines())))

    @app.get("/debug/snapshot")
    def snapshot() -> Response:
        try:
            body = explainer.snapshot_file()
        except RequestError as error:
            return _problem(error.status, str(error), "snapshot")
        response = Response(body, content_type="application/gzip")
        response.headers["Content-Disposition"] = 'attachment; filename="scheduler-ext-snapshot.json.gz"'
        return response

    @app.get("/debug/ledger")
    def ledger() -> Response:
        return _json(200, encode_json(ledger_dump(source.snapshot, resources)))

    return app


def _namespaced(pod: str | None) -> tuple[str, str]:
    namespace, slash, name = (pod or "").partition("/")
    if not (namespace and slash and name):
        raise RequestError(400, f"pod: {(pod or '')[:80]!r}; ask for ?pod=NAMESPACE/NAME, or POST a manifest")
    return namespace, name


def _posted_pod(environ: dict[str, Any]) -> kube.Pod:
    try:
        body = read_body(environ, SIDE_BODY_BYTES)
        pods = read_pods(body)
    except BodyError as error:
        raise RequestError(error.status, str(error)) from None
    except InventoryError as error:
        raise RequestError(400, str(error)) from None
    if len(pods) != 1:
        raise RequestError(400, f"{len(pods)} pods in it; send one")
    return pods[0]


def _at_most(answer: dict[str, Any], most: str | None) -> dict[str, Any]:
    """The answer with so many nodes at most, the best first; all where nothing is said."""
    if most is None:
        return answer
    if not most.isascii() or not most.isdecimal() or len(most) > 9:
        raise RequestError(400, f"nodes: {most[:80]!r}; give a number, of nodes to show")
    shown = answer["nodes"][: int(most)]
    return answer | {"nodes": shown, "nodesLeftOut": len(answer["nodes"]) - len(shown)}


def _bare_app(name: str) -> Flask:
    app = Flask(f"scheduler_ext.{name}", static_folder=None)

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        message = f"{error.code} {error.name}: {request.method} {request.path[:200]}"
        log.warning("%s refused: %s", name, message.encode("unicode_escape").decode())
        response = _json(error.code or 500, encode_json({"error": message}))
        for header, value in error.get_headers():
            if header == "Allow":
                response.headers[header] = value
        return response

    return app


def _check_content(environ: Mapping[str, str]) -> None:
    encoding = environ.get("HTTP_CONTENT_ENCODING", "")
    if encoding.lower() not in ("", "identity"):
        raise RequestError(415, f"Content-Encoding: {encoding[:80]!r}; send the body as it is")
    kind = environ.get("CONTENT_TYPE", "")
    if kind not in _CONTENT_TYPES and parse_options_header(kind)[0].lower() not in _CONTENT_TYPES:
        raise RequestError(415, f"Content-Type: {kind[:80]!r}; send application/json")


def _problem(status: int, message: str, verb: str) -> Response:
    log.warning("%s refused with %d: %s", verb, status, message)
    return _json(status, encode_json({"error": message}))


def _json(status: int, body: bytes) -> Response:
    return Response(body, status=status, content_type="application/json")


def _text(status: int, body: str) -> Response:
    return Response(body, status=status, content_type="text/plain; charset=utf-8")
