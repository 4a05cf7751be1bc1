"""The requests that reached the API server, and filters for them."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.cluster.api.api_paths import Target, target

# A test needs no more than the latest of so many.
_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case, `at` is by the server's clock."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def watch(self) -> bool:
        return self.method == "GET" and self.query.get("watch") in ("1", "true")

    @property
    def target(self) -> Target | None:
        return target(self.path)

    def json(self) -> Any:
        return json.loads(self.body)


Match = Callable[[Request], bool]


def everything(_: Request) -> bool:
    return True


def lists(path: str = "") -> Match:
    """Requests for a list (each page counts) of a collection, or of any."""
    return lambda request: _is_list(request) and not request.watch and _is_of(request, path)


def first_pages(path: str = "") -> Match:
    """Requests that begin a list of a collection, or of any."""
    return lambda request: lists(path)(request) and not request.query.get("continue")


def watches(path: str = "") -> Match:
    """Requests for a watch of a collection, or of any."""
    return lambda request: request.watch and _is_of(request, path)


def writes(path: str = "", method: str = "") -> Match:
    """Requests that change an object of a collection or of any, by one method or by any."""
    return lambda request: (
        request.method != "GET" and request.method.startswith(method) and _is_of(request, path)
    )


def _is_list(request: Request) -> bool:
    asked = request.target
    return request.method == "GET" and asked is not None and asked.name is None


def _is_of(request: Request, path: str) -> bool:
    wanted, asked = target(path), request.target
    return not path or (wanted is not None and asked is not None and asked.collection == wanted.collection)


class RequestLog:
    """The requests in the order of arrival; safe in any thread."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque(maxlen=_KEPT)
        self._arrived = threading.Condition()

    def add(self, request: Request) -> None:
        with self._arrived:
            self._requests.append(request)
            self._arrived.notify_all()

    def all(self, match: Match = everything) -> list[Request]:
        with self._arrived:
            return [request for request in self._requests if match(request)]

    def count(self, match: Match = everything) -> int:
        return len(self.all(match))

    def clear(self) -> None:
        with self._arrived:
            self._requests.clear()

    def wait_for(self, match: Match = everything, count: int = 1) -> list[Request]:
        """Wait for so many matching requests and return them, a minute at most."""
        with self._arrived:
            arrived = self._arrived.wait_for(lambda: self.count(match) >= count, timeout=60)
            assert arrived, f"{self.count(match)} of {count} requests"
            return self.all(match)
