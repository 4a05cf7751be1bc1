"""Times of bindings from a watch of the API server, read cheaply, because two cores are shared."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import urllib3

from benchmarks.scheduler.pods import PATH
from tests.e2e.cluster.api import Api

_CONNECT_S = 10.0
# A row of 300 bytes per event instead of a pod of 15 kB: the API server ends watches whose client is slow.
_ACCEPT = "application/json;as=Table;g=meta.k8s.io;v=v1"
# Only pods that have a node: each is ADDED when it gets one.
_QUERY = {"watch": "1", "fieldSelector": "spec.nodeName!=", "includeObject": "None", "timeoutSeconds": "3600"}
_ADDED = b'{"type":"ADDED"'
_ERROR = b'{"type":"ERROR"'
_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')


class BindingWatch:
    """Counts bound pods from the moment of its creation."""

    def __init__(self, api: Api, patience_s: float) -> None:
        self._api = api
        timeout = urllib3.Timeout(connect=_CONNECT_S, read=patience_s)
        self._pool = urllib3.PoolManager(ca_certs=str(api.ca_file), retries=False, timeout=timeout)
        # From a list: a watch from "now" fails if etcd is older than 3.4.31, because the API server's cache
        # then never learns the present version.
        self._version: str = api.get(PATH, limit="1")["metadata"]["resourceVersion"]

    def bindings(self) -> Iterator[None]:
        """One item per bound pod; ends if none came for `patience_s`. Raises ConnectionError."""
        try:
            while True:
                yield from self._until_closed()
        except urllib3.exceptions.ReadTimeoutError:
            return
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(f"the watch on pods failed: {error}") from error

    def _until_closed(self) -> Iterator[None]:
        reply = self._pool.request(
            "GET",
            self._api.server + PATH,
            fields={**_QUERY, "resourceVersion": self._version},
            headers={"Authorization": f"Bearer {self._api.token}", "Accept": _ACCEPT},
            preload_content=False,
        )
        # Closing ends the watch at the server; a released connection would be read to its end.
        with contextlib.closing(reply):
            if reply.status != 200:
                raise ConnectionError(f"the watch on pods was refused with {reply.status}")
            unfinished = b""
            while received := reply.read1():
                *lines, unfinished = (unfinished + received).split(b"\n")
                for line in lines:
                    if line.startswith(_ERROR):
                        raise ConnectionError(f"the watch on pods failed: {line[:300]!r}")
                    found = _VERSION.search(line)
                    if found:
                        self._version = found[1].decode()
                    if line.startswith(_ADDED):
                        yield
