"""The inspection listener's answers about one pod: why it went where it is, or waits."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from flask import Blueprint, Response, request

from scheduler_ext.core.errors import InventoryError, RequestError
from scheduler_ext.extender.explainer import Explainer
from scheduler_ext.server.body import BodyError, read_body
from scheduler_ext.server.replies import json_reply, problem_reply
from scheduler_ext.wire import kube
from scheduler_ext.wire.extender import encode_json
from scheduler_ext.wire.objects import read_pods

# As much as kubectl applies: YAML is read in Python, which decisions wait for now and then.
MAX_MANIFEST_BYTES = 256 * 1024
# The listener has few threads, which others want as well.
_PATIENCE_S = 1.0


def explanations_blueprint(explainer: Explainer) -> Blueprint:
    """Of a pod by name, or by a manifest that is sent; one at a time: they take their time from decisions."""
    routes = Blueprint("explanations", __name__)
    turn = Lock()

    def explained(answer: Callable[[], dict[str, Any]]) -> Response:
        if not turn.acquire(timeout=_PATIENCE_S):
            return problem_reply(503, "other pods are being explained; try again", "explain")
        try:
            return json_reply(200, encode_json(_at_most(answer(), request.args.get("nodes"))))
        except RequestError as error:
            return problem_reply(error.status, str(error), "explain")
        finally:
            turn.release()

    @routes.get("/explain")
    def explain_by_name() -> Response:
        return explained(lambda: explainer.of_name(*_namespaced(request.args.get("pod"))))

    @routes.post("/explain")
    def explain_manifest() -> Response:
        return explained(lambda: explainer.of_manifest(_posted_pod(request.environ)))

    return routes


def _namespaced(pod: str | None) -> tuple[str, str]:
    namespace, slash, name = (pod or "").partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise RequestError(
            400, f"pod: {(pod or '')[:80]!r}; ask for ?pod=NAMESPACE/NAME, with one slash, or POST a manifest"
        )
    return namespace, name


def _posted_pod(environ: dict[str, Any]) -> kube.Pod:
    try:
        body = read_body(environ, MAX_MANIFEST_BYTES)
        pods = read_pods(body)
    except BodyError as error:
        raise RequestError(error.status, str(error)) from None
    except InventoryError as error:
        raise RequestError(400, str(error)) from None
    if len(pods) != 1:
        raise RequestError(400, f"{len(pods)} pods in it; send one")
    metadata = pods[0].metadata or kube.ObjectMeta()
    for field, value in (("namespace", metadata.namespace), ("name", metadata.name)):
        if "/" in (value or ""):
            # Together they would be read as another pod's.
            raise RequestError(
                400,
                f"metadata.{field}: {(value or '')[:80]!r}; no {field} has a slash: give one such as 'a-1'",
            )
    return pods[0]


def _at_most(answer: dict[str, Any], most: str | None) -> dict[str, Any]:
    """The answer with so many nodes at most, the best first; all where nothing is said."""
    if most is None:
        return answer
    if not most.isascii() or not most.isdecimal() or len(most) > 9:
        raise RequestError(400, f"nodes: {most[:80]!r}; give a number of nodes to show, 0 to 999999999")
    shown = answer["nodes"][: int(most)]
    return answer | {"nodes": shown, "nodesLeftOut": len(answer["nodes"]) - len(shown)}
