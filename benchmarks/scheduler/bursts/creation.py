"""Creation of the pods of a burst, at little cost to the cores that the contenders use."""

from __future__ import annotations

import json
import ssl
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPSConnection
from urllib.parse import urlsplit

from benchmarks.scheduler.pods import PATH, pods
from tests.e2e.cluster.api import Api, ApiError

_CREATORS = 4
_TIMEOUT_S = 120.0


def create_pods(api: Api, count: int, seed: int) -> None:
    """Create pods that are equal except for their names, several at a time. Raises ApiError or OSError."""
    (first,) = pods(1, seed, alike=True)
    name = first["metadata"]["name"]
    before, after = json.dumps(first).split(json.dumps(name), 1)
    bodies = [f"{before}{json.dumps(f'{name}-{number}')}{after}".encode() for number in range(count)]
    with ThreadPoolExecutor(_CREATORS) as pool:
        for _ in pool.map(lambda part: _create(api, part), [bodies[i::_CREATORS] for i in range(_CREATORS)]):
            pass


def _create(api: Api, bodies: list[bytes]) -> None:
    server = urlsplit(api.server)
    context = ssl.create_default_context(cafile=str(api.ca_file))
    connection = HTTPSConnection(server.hostname or "", server.port, timeout=_TIMEOUT_S, context=context)
    headers = {"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"}
    for body in bodies:
        connection.request("POST", PATH, body, headers)
        reply = connection.getresponse()
        answer = reply.read()
        if reply.status != 201:
            raise ApiError(reply.status, reply.reason, answer[:300].decode(errors="replace"))
    connection.close()
