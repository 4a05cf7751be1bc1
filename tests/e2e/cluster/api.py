"""The Kubernetes API as JSON in, JSON out, for one user."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import urllib3

Json = dict[str, Any]
_T = TypeVar("_T")

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"

# A loaded machine takes long to delete hundreds of pods at once.
_TIMEOUT_S = 120.0
# Short, because a watch notices only at its end that it is no longer needed.
_WATCH_S = 3


class ApiError(Exception):
    """The API server answered with an error; `status` is the HTTP code, `reason` Kubernetes' own word."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Api:
    """One user's view of an API server; safe to use from several threads."""

    def __init__(self, server: str, ca_file: Path, token: str, connections: int = 8) -> None:
        self.server = server
        self.ca_file = ca_file
        self.token = token
        self._pool = urllib3.PoolManager(
            maxsize=connections,
            ca_certs=str(ca_file),
            retries=False,
            timeout=urllib3.Timeout(_TIMEOUT_S),
        )

    def as_user(self, token: str) -> Api:
        """The same server with another token."""
        return Api(self.server, self.ca_file, token)

    def request(
        self,
        method: str,
        path: str,
        body: Json | list[Json] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        """One call. Raises ApiError for any answer but 2xx, ConnectionError for none."""
        reply = self._call(
            method,
            path,
            fields=query if method == "GET" else None,
            body=None if body is None else json.dumps(body).encode(),
            headers=self._headers(content_type),
        )
        answer: Json = json.loads(reply.data) if reply.data else {}
        if not 200 <= reply.status < 300:
            raise ApiError(reply.status, answer.get("reason", ""), answer.get("message", ""))
        return answer

    def _call(self, method: str, path: str, **options: Any) -> urllib3.BaseHTTPResponse:
        """Raises ConnectionError if there is no answer at all."""
        try:
            return self._pool.request(method, self.server + path, **options)
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(str(error)) from error

    def _headers(self, content_type: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}

    def get(self, path: str, **query: str) -> Json:
        """One object or list."""
        return self.request("GET", path, query=query)

    def items(self, path: str, **query: str) -> list[Json]:
        """The items of a list."""
        items: list[Json] = self.get(path, **query)["items"]
        return items

    def create(self, path: str, body: Json) -> Json:
        """POST an object to its collection."""
        return self.request("POST", path, body)

    def patch(self, path: str, body: Json | list[Json], content_type: str = MERGE) -> Json:
        """Change an object; by a merge patch unless another type is given."""
        return self.request("PATCH", path, body, content_type=content_type)

    def delete(self, path: str, grace_s: int | None = None) -> None:
        """Delete an object that may be gone already."""
        options = None if grace_s is None else {"gracePeriodSeconds": grace_s}
        try:
            self.request("DELETE", path, options)
        except ApiError as error:
            if error.status != 404:
                raise

    def create_namespace(self, name: str, **labels: str) -> None:
        """A namespace, and the ServiceAccount without which it accepts no pods."""
        self.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        eventually(lambda: self.items(accounts), f"the namespace {name} has its ServiceAccount")

    def as_account(self, namespace: str, account: str, /, **bound_to: str) -> Api:
        """The same server as a ServiceAccount, with a token that may be bound to an object."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        spec = {"expirationSeconds": 3600, "boundObjectRef": bound_to or None}
        return self.as_user(self.create(path, {"spec": spec})["status"]["token"])

    def refusal(
        self, method: str, path: str, body: Json | list[Json], content_type: str = "application/json"
    ) -> str:
        """The server's objection to a call; empty if it takes it."""
        try:
            self.request(method, path, body, content_type=content_type)
        except ApiError as error:
            return str(error)
        return ""

    def text(self, path: str) -> str:
        """A body that is not JSON: /livez, /metrics. Raises ApiError for any answer but 2xx."""
        reply = self._call("GET", path, headers=self._headers("text/plain"))
        if not 200 <= reply.status < 300:
            raise ApiError(reply.status, "", reply.data.decode(errors="replace")[:200])
        return reply.data.decode()

    def watch(self, path: str, stopped: Callable[[], bool]) -> Iterator[tuple[str, Json]]:
        """(type, object) from now on, the present ones as ADDED; ends within some seconds of `stopped`."""
        version = ""
        while not stopped():
            if not version:
                listed = self.get(path)
                version = listed["metadata"]["resourceVersion"]
                for item in listed["items"]:
                    yield "ADDED", item
            for kind, item in self._events(path, version):
                if kind == "ERROR":
                    version = ""
                    break
                version = item["metadata"]["resourceVersion"]
                if kind != "BOOKMARK":
                    yield kind, item

    def _events(self, path: str, version: str) -> Iterator[tuple[str, Json]]:
        reply = self._call(
            "GET",
            path,
            fields={
                "watch": "1",
                "resourceVersion": version,
                "allowWatchBookmarks": "true",
                "timeoutSeconds": str(_WATCH_S),
            },
            headers=self._headers("application/json"),
            preload_content=False,
        )
        with reply:
            if reply.status != 200:
                yield "ERROR", {}
                return
            unfinished = b""
            while received := _received(reply):
                *lines, unfinished = (unfinished + received).split(b"\n")
                for event in map(json.loads, lines):
                    yield event["type"], event["object"]


def _received(reply: urllib3.BaseHTTPResponse) -> bytes:
    """The bytes that a stream has received; empty at its end, orderly or not."""
    try:
        return reply.read1()
    except urllib3.exceptions.HTTPError:
        return b""


def eventually(question: Callable[[], _T | None], what: str, timeout_s: float = 30.0) -> _T:
    """The first true answer to `question`; raises AssertionError if none comes."""
    until = time.monotonic() + timeout_s
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > until:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.05)
