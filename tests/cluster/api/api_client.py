"""Send lists and watches to an API server, one request at a time, and return the exact answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import urllib3

from tests.kube_objects import Json

# Longer than any request here; a hanging one becomes an error soon enough.
TIMEOUT_S = 60.0


class Client:
    """A pool of connections to the server at a URL, without retries of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = urllib3.PoolManager(retries=False, timeout=TIMEOUT_S)

    def close(self) -> None:
        """End its connections."""
        self._pool.clear()

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, /, **query: str
    ) -> urllib3.BaseHTTPResponse:
        """One request and its whole answer."""
        data = None if body is None else json.dumps(body).encode()
        fields = urlencode(query) if query else ""
        return self._pool.request(method, f"{self._url}{path}?{fields}", body=data, headers=headers)

    def list(self, path: str, **query: str) -> Json:
        """A list, or a page of one."""
        answer = self.ask("GET", path, **query)
        assert answer.status == 200, answer.data
        found: Json = answer.json()
        return found

    @contextmanager
    def watch(self, path: str, **query: str) -> Iterator[Lines]:
        """A watch while it is entered; ends its connection afterwards."""
        fields = urlencode({"watch": "1"} | query)
        answer = self._pool.request("GET", f"{self._url}{path}?{fields}", preload_content=False)
        try:
            yield Lines(answer)
        finally:
            answer.close()


class Lines:
    """The lines of a watch as they arrive."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self.status = answer.status
        self._chunks = answer.stream(65536)
        self._rest = b""

    def raw(self) -> bytes:
        """The next line; raises EOFError at the end, urllib3's errors where the connection breaks."""
        while b"\n" not in self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                raise EOFError
            self._rest += chunk
        found, _, self._rest = self._rest.partition(b"\n")
        return found

    def event(self) -> Json:
        """The next line, decoded."""
        found: Json = json.loads(self.raw())
        return found

    def short(self, count: int = 1) -> list[str]:
        """The next events as KIND NAME; for a bookmark its version instead of a name, for an error its
        code.
        """
        return [_short(self.event()) for _ in range(count)]


def _short(event: Json) -> str:
    kind, found = event["type"], event["object"]
    if kind == "ERROR":
        return f"ERROR {found['code']}"
    metadata = found["metadata"]
    return f"{kind} {metadata['resourceVersion'] if kind == 'BOOKMARK' else metadata['name']}"
