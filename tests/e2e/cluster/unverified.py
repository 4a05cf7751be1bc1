"""Requests without certificate verification, like the kubelet's probes: kube-scheduler signs its own
certificate.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.request
from typing import Any

_CONTEXT = ssl.create_default_context()
_CONTEXT.check_hostname = False
_CONTEXT.verify_mode = ssl.CERT_NONE
# Everything is on loopback, so the environment's proxy does not apply.
_OPENER = urllib.request.build_opener(
    urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=_CONTEXT)
)


def get(url: str, token: str | None = None, timeout_s: float = 5.0) -> str:
    """The body. Raises OSError without an answer, and for status 400 and above."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return _answer(urllib.request.Request(url, headers=headers), timeout_s)


def post(url: str, body: dict[str, Any], timeout_s: float = 5.0) -> str:
    """The JSON answer to JSON. Raises OSError as `get` does."""
    return _answer(urllib.request.Request(url, json.dumps(body).encode()), timeout_s)


def _answer(request: urllib.request.Request, timeout_s: float) -> str:
    try:
        with _OPENER.open(request, timeout=timeout_s) as reply:
            body: bytes = reply.read()
    except http.client.HTTPException as error:
        # A server that ends in the middle of its answer counts as unreachable.
        raise ConnectionError(f"{request.full_url}: {error!r}") from error
    return body.decode()
