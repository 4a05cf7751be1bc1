"""Replies that explain a pod, one at a time: explanations take time from decisions."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Any

from flask import Response, request

from scheduler_ext.core.errors import RequestError
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.server.http.body import received_at
from scheduler_ext.server.replies import json_reply, problem_reply
from scheduler_ext.wire.extender_args import encode_json

# From the end of the request: it also waits for one of the listener's few threads, which others need as well.
_PATIENCE_S = 1.0


class Explaining:
    """An explainer for several routes, which take turns."""

    def __init__(self, explainer: Explainer) -> None:
        self.explainer = explainer
        self._turn = Lock()

    def reply(self, answer: Callable[[], dict[str, Any]]) -> Response:
        """The answer as JSON, or its RequestError."""
        left_s = received_at(request.environ) + _PATIENCE_S - time.monotonic()
        if not self._turn.acquire(timeout=max(0.0, left_s)):
            return problem_reply(503, "other pods are being explained; try again", "explain")
        try:
            return json_reply(200, encode_json(answer()))
        except RequestError as error:
            return problem_reply(error.status, str(error), "explain")
        finally:
            self._turn.release()


def namespaced(pod: str | None) -> tuple[str, str]:
    """Namespace and name of a pod in a query. Raises RequestError."""
    namespace, slash, name = (pod or "").partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise RequestError(
            400, f"pod: {(pod or '')[:80]!r}; ask for ?pod=NAMESPACE/NAME, with one slash, or POST a manifest"
        )
    return namespace, name
