"""One connection to the API server: reads requests, meets faults, answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from tests.cluster.api.api_collection import Collection
from tests.cluster.api.api_entry import field_selector, label_selector
from tests.cluster.api.api_faults import (
    After,
    AnswerFault,
    Cut,
    Drip,
    Garbage,
    Hang,
    Placed,
    Refuse,
    Reset,
    WatchFault,
)
from tests.cluster.api.api_forward import accept_headers, forward
from tests.cluster.api.api_output import ConnectionEndError, Output
from tests.cluster.api.api_paths import Target
from tests.cluster.api.api_requests import Request
from tests.cluster.api.api_status import ApiError, bad_request
from tests.cluster.api.api_store import Page
from tests.cluster.api.api_watch import Watch, stream
from tests.cluster.api.api_writes import write

if TYPE_CHECKING:
    from tests.cluster.api.api_server import Listener

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; `headers` are beside Date, Content-Type and Content-Length."""

    code: int
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


class Handler(BaseHTTPRequestHandler):
    """See ApiServer, which the listener carries as `api`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Headers are sent with the answer's first bytes.
    wbufsize = -1

    def setup(self) -> None:
        super().setup()
        listener = cast("Listener", self.server)
        self.api = listener.api
        self.output = Output(self.connection, listener.stopping)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: tests read the request log."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(self.api.clock() if timestamp is None else timestamp)

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        parts = urlsplit(self.path)
        request = Request(
            self.command,
            unquote(parts.path),
            dict(parse_qsl(parts.query, keep_blank_values=True)),
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(length),
            self.api.clock(),
        )
        self.api.log.add(request)
        try:
            self._answer(request)
        except ApiError as error:
            self._refuse(error)
        except ConnectionEndError:
            self.close_connection = True

    # The names are http.server's.
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _answer(self, request: Request) -> None:
        after = self._meet(request)
        tokens = self.api.tokens
        if tokens and request.headers.get("authorization", "").removeprefix("Bearer ") not in tokens:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        answer = self.api.hook(request) if self.api.hook else None
        asked = request.target
        if answer is not None:
            self._send(answer)
        elif request.path.endswith("/portforward"):
            self._forward(request)
        elif asked is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        elif request.watch:
            self._watch(request, asked)
        elif request.method == "GET" and asked.name is None:
            self._list(request, asked)
        elif request.method == "GET" and asked.name is not None:
            entry = self.api.store.get(asked.collection, asked.name, asked.namespace)
            self._send(Answer(200, entry.body))
        else:
            code, body = write(self.api.store, request, asked)
            if after is not None and isinstance(after.fault, After):
                self._suffer(after.fault.fault, after)
            self._send(Answer(code, body))

    def _forward(self, request: Request) -> None:
        """To the local stand-in of the pod's port."""
        *_, namespace, _, name, _ = request.path.split("/")
        port = int(request.query["ports"])
        self.send_response(101)
        for header, value in accept_headers(request.headers["sec-websocket-key"]).items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.flush()
        forward(self.connection, self.rfile.read, port, self.api.ports.get((namespace, name, port)))
        self.close_connection = True

    def _meet(self, request: Request) -> Placed | None:
        """Apply the faults for this request, except one for after it; raises the end of the request."""
        self.output.begin(None)
        while (placed := self.api.faults.on_answer(request)) is not None:
            if isinstance(placed.fault, After):
                return placed
            if isinstance(placed.fault, Cut | Drip):
                self.output.begin(placed.fault)
                return None
            self._suffer(placed.fault, placed)
        return None

    def _suffer(self, fault: AnswerFault | WatchFault, placed: Placed) -> None:
        """One fault; raises the end of the request."""
        if isinstance(fault, Refuse):
            raise ApiError(fault.code, fault.reason, fault.message, fault.retry_after_s)
        if isinstance(fault, Reset):
            self.output.end(reset=True)
        if isinstance(fault, Garbage):
            self.output.raw(fault.data)
            self.output.end()
        if isinstance(fault, Hang):
            self.output.wait(placed.lifted)

    def _head(self, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in ({"Content-Type": _JSON} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def _send(self, answer: Answer) -> None:
        self._head(answer.code, {"Content-Length": str(len(answer.body))} | answer.headers)
        self.output.body(answer.body)

    def _refuse(self, error: ApiError) -> None:
        headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s is not None else {}
        self._send(Answer(error.code, error.body(), headers))

    def _list(self, request: Request, asked: Target) -> None:
        query = request.query
        selected = field_selector(query.get("fieldSelector", ""))
        selected += label_selector(query.get("labelSelector", ""))
        version, token = query.get("resourceVersion", ""), query.get("continue", "")
        if not (version or "0").isdecimal() or not (query.get("limit") or "0").isdecimal():
            raise bad_request("resourceVersion and limit are numbers")
        # As in kube-apiserver: a list that the cache may answer comes whole.
        limit = int(query.get("limit") or 0) if version != "0" else 0
        page = self.api.store.page(asked, selected, limit, token)
        self._send_list(self.api.store.collection(asked.collection), page)

    def _send_list(self, collection: Collection, page: Page) -> None:
        metadata: dict[str, object] = {"resourceVersion": str(page.version)}
        # The last page of a custom resource has an empty token, that of a built-in type none.
        if page.token or not collection.bare_items:
            metadata["continue"] = page.token
        kind = {"kind": f"{collection.kind}List", "apiVersion": collection.api_version}
        before = msgspec.json.encode(kind | {"metadata": metadata})[:-1] + b',"items":['
        skipped = len(collection.head) - 1 if collection.bare_items else 0
        pieces: list[bytes | memoryview] = [before]
        for i, entry in enumerate(page.entries):
            if i:
                pieces.append(b",")
            if skipped:
                pieces.append(b"{")
            pieces.append(memoryview(entry.body)[skipped + 1 :] if skipped else entry.body)
        pieces.append(b"]}\n")
        self._head(200, {"Content-Length": str(sum(map(len, pieces)))})
        self.output.bodies(pieces)

    def _watch(self, request: Request, asked: Target) -> None:
        try:
            watch = Watch(self.api.store, asked, request.query)
        except ApiError as error:
            if error.code != 410:
                raise
            self._head(200, {"Transfer-Encoding": "chunked"})
            self.output.chunks([b'{"type":"ERROR","object":%s}\n' % error.body()])
            self.output.body(b"0\r\n\r\n")
            return
        self._head(200, {"Transfer-Encoding": "chunked"})
        self.api.watch_began(request)
        try:
            stream(watch, request, self.output, self.api.faults)
        finally:
            self.api.watch_ended(request)
        self.output.body(b"0\r\n\r\n")
