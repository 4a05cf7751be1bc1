"""Requests that reached the API server, and how tests choose among them."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.cluster.api.api_paths import Target, target

# A test that loses the oldest of so many is not interested in them.
_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Request:
    """One request; names of headers are in lower case, ``at`` is by the server's clock."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def watch(self) -> bool:
        """Whether it asks for a watch."""
        return self.method == "GET" and self.query.get("watch") in ("1", "true")

    @property
    def target(self) -> Target | None:
        """What its path names."""
        return target(self.path)

    def json(self) -> Any:
        """Its body, decoded."""
        return json.loads(self.body)


Match = Callable[[Request], bool]


def everything(_: Request) -> bool:
    """Any request."""
    return True


def lists(path: str = "") -> Match:
    """Requests for a list (each page is one) of a collection, or of any."""
    return lambda request: _is_list(request) and not request.watch and _is_of(request, path)


def first_pages(path: str = "") -> Match:
    """Requests that begin a list of a collection, or of any."""
    return lambda request: lists(path)(request) and not request.query.get("continue")


def watches(path: str = "") -> Match:
    """Requests for a watch of a collection, or of any."""
    return lambda request: request.watch and _is_of(request, path)


def writes(path: str = "", method: str = "") -> Match:
    """Requests that change something in a collection or in any, by one method or by any."""
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
    """What was asked, in the order of arrival; safe to call from any thread."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque(maxlen=_KEPT)
        self._arrived = threading.Condition()

    def add(self, request: Request) -> None:
        """Write a request down."""
        with self._arrived:
            self._requests.append(request)
            self._arrived.notify_all()

    def all(self, match: Match = everything) -> list[Request]:
        """The requests that match."""
        with self._arrived:
            return [request for request in self._requests if match(request)]

    def count(self, match: Match = everything) -> int:
        """How many match."""
        return len(self.all(match))

    def clear(self) -> None:
        """Forget all of them."""
        with self._arrived:
            self._requests.clear()

    def wait_for(self, match: Match = everything, count: int = 1, timeout_s: float = 60) -> list[Request]:
        """The requests that match, once there are so many; raises TimeoutError."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: self.count(match) >= count, timeout_s):
                raise TimeoutError(f"{self.count(match)} of {count} requests within {timeout_s} s")
            return self.all(match)
