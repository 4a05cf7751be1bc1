"""An extender that knows the benchmark's rule by heart, so that the benchmark itself can be tested.

Nodes of an inventory come in turns of four: 0 takes every pod, 1 none, 2 the modest ones (which ask for an
H100 or compute capability 9.0), 3 the demanding ones. Dialects: `exact` answers as ours does, with at most
100 names; `foreign` answers as other extenders may (lower-case keys, full Nodes, chunked, closing the
connection); `lenient` wrongly rejects nothing; `failing` answers 500.
"""

from __future__ import annotations

import argparse
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_PREFIX = "gpu.scheduler-ext.io/"
_WANTS_H100 = {f"{_PREFIX}model": ("H100-80GB", "H100"), f"{_PREFIX}min-compute-capability": ("9.0",)}


class FakeExtender(ThreadingHTTPServer):
    """Serves filter and prioritize for the names in `turns`, which maps them to 0..3."""

    def __init__(self, turns: dict[str, int], dialect: str) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.turns = turns
        self.dialect = dialect

    def answer(self, verb: str, args: dict[str, Any]) -> Any:
        names = args["NodeNames"]
        if verb == "prioritize":
            host, score = ("host", "score") if self.dialect == "foreign" else ("Host", "Score")
            return [{host: name, score: len(name) % 11} for name in names]
        annotations = args["Pod"]["metadata"]["annotations"]
        modest = any(annotations.get(key) in values for key, values in _WANTS_H100.items())
        room = {0, 1, 2, 3} if self.dialect == "lenient" else {0, 2 if modest else 3}
        fitting = [name for name in names if self.turns.get(name) in room]
        rejected = {name: "no room" for name in names if self.turns.get(name) not in room}
        if self.dialect == "foreign":
            items = [{"metadata": {"name": name}} for name in fitting]
            return {"nodes": {"items": items}, "nodenames": None, "failedNodes": rejected, "error": ""}
        return {"NodeNames": fitting[:100], "FailedAndUnresolvableNodes": rejected, "Error": ""}


class _Conversation(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeExtender

    def do_POST(self) -> None:
        args = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(self.server.answer(self.path.rsplit("/", 1)[-1], args)).encode()
        status = b"500 Internal Server Error" if self.server.dialect == "failing" else b"200 OK"
        if self.server.dialect == "foreign":
            head = b"Transfer-Encoding: chunked\r\nConnection: close"
            half = len(body) // 2
            chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:])]
            body = b"".join(chunks) + b"0\r\n\r\n"
            self.close_connection = True
        else:
            head = b"Content-Length: %d" % len(body)
        self.wfile.write(
            b"HTTP/1.1 %b\r\nContent-Type: application/json\r\n%b\r\n\r\n%b" % (status, head, body)
        )

    def log_message(self, format: str, *args: object) -> None:
        """Silent: stderr carries the ready line only."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--inventory", type=Path, required=True)
    parser.add_argument("--dialect", choices=("exact", "foreign", "lenient", "failing"), default="exact")
    options = parser.parse_args()
    items = json.loads(options.inventory.read_text(encoding="utf-8"))["items"]
    names = [item["metadata"]["name"] for item in items if item["kind"] == "GPUNode"]
    server = FakeExtender({name: index % 4 for index, name in enumerate(names)}, options.dialect)
    print(f"ready api=http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
