"""The baseline: Flask on gunicorn, with almost nothing behind it.

By default it runs on the extender's own transport, so that the difference to an extender is the work on the
request. `--plain` runs it on gunicorn's stock gthread worker instead: that difference is the cost of the
transport. It announces itself on stderr with `ready api=http://HOST:PORT`.

POST `/` reads the whole body and decodes nothing; a server started by hand is given to the latency benchmark
with `--noop-url`. POST `/filter` and `/prioritize` answer so that kube-scheduler continues: the first
`--names` of the names sent fit (0: all of them), and all have the same score.
"""

from __future__ import annotations

import sys
from typing import Any

import click
from flask import Flask, Response, request
from gunicorn.app.base import BaseApplication

from scheduler_ext.server.gunicorn_server import run_server
from scheduler_ext.server.http.body import read_body
from scheduler_ext.server.server_options import Apps, ServerOptions

# The extender's default limit.
MAX_BODY_BYTES = 64 * 2**20
LOOPBACK = "127.0.0.1"
# kube-scheduler writes ExtenderArgs with the names last and without white space, and node names are DNS
# names: the list ends at the first bracket and splits at commas. Quotes inside the pod are escaped, so the
# key cannot be found there.
_KEY = b'"NodeNames":['


class NamesError(ValueError):
    """The request carries no list of names."""


def filter_reply(body: bytes, max_names: int) -> bytes:
    """An ExtenderFilterResult with the first `max_names` (0: all) names of an ExtenderArgs.

    Raises NamesError.
    """
    names = _list_of_names(body)
    if max_names:
        names = b",".join(names.split(b",", max_names)[:max_names])
    return b'{"NodeNames":[%b]}' % names


def prioritize_reply(body: bytes) -> bytes:
    """A HostPriorityList with 0 points for every name of an ExtenderArgs. Raises NamesError."""
    names = _list_of_names(body)
    entries = (b'{"Host":%b,"Score":0}' % name for name in names.split(b",")) if names else ()
    return b"[%b]" % b",".join(entries)


def _list_of_names(body: bytes) -> bytes:
    """The names with their quotes and commas."""
    found = body.find(_KEY)
    if found < 0:
        raise NamesError("the request has no NodeNames: set nodeCacheCapable: true")
    start = found + len(_KEY)
    return body[start : body.index(b"]", start)]


def noop_app(max_names: int = 0) -> Flask:
    """An app whose `/` answers every POST alike, and whose filter returns the first `max_names` (0: all)."""
    app = Flask("noop", static_folder=None)

    @app.post("/")
    def noop() -> Response:
        _body()
        return _json(b'{"ok":true}')

    @app.post("/filter")
    @app.post("/filter/best")
    def filter_nodes() -> Response:
        return _json(filter_reply(_body(), max_names))

    @app.post("/prioritize")
    def prioritize_nodes() -> Response:
        return _json(prioritize_reply(_body()))

    @app.errorhandler(NamesError)
    def refused(error: NamesError) -> Response:
        return Response(f"{error}\n", status=400, content_type="text/plain")

    return app


def _body() -> bytes:
    return read_body(request.environ, MAX_BODY_BYTES)


def _json(body: bytes) -> Response:
    return Response(body, content_type="application/json")


def serve_on_own_transport(port: int, max_names: int) -> None:
    """Serve as `scheduler-ext serve` does, until SIGTERM."""
    options = ServerOptions((LOOPBACK, port), (LOOPBACK, 0), (LOOPBACK, 0))
    idle = Flask("idle", static_folder=None)
    run_server(options, lambda: Apps(api=noop_app(max_names), health=idle, inspect=idle, close=lambda: None))


class PlainServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no type information
    """gunicorn's stock gthread worker on one port; takes no settings from the environment or files."""

    def __init__(self, port: int, max_names: int) -> None:
        self._port = port
        self._max_names = max_names
        super().__init__()

    def load_config(self) -> None:
        """Called by gunicorn to fill its configuration."""
        settings: dict[str, Any] = {
            "bind": [f"{LOOPBACK}:{self._port}"],
            "workers": 1,
            "worker_class": "gthread",
            "threads": 8,
            "keepalive": 120,
            "worker_tmp_dir": "/dev/shm",
            "control_socket_disable": True,
            "loglevel": "warning",
            "when_ready": _announce,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Called by gunicorn in the worker."""
        return noop_app(self._max_names)


def _announce(arbiter: Any) -> None:
    """gunicorn's when_ready hook: the port is the one the kernel gave."""
    port = arbiter.LISTENERS[0].sock.getsockname()[1]
    print(f"ready api=http://{LOOPBACK}:{port}", file=sys.stderr, flush=True)


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="On loopback; 0 takes a free one.")
@click.option("--plain", is_flag=True, help="gunicorn's stock worker instead of the extender's transport.")
@click.option("--names", "max_names", type=click.IntRange(0), default=0, help="What filter returns; 0: all.")
def main(port: int, plain: bool, max_names: int) -> None:
    """Serve the no-op routes until SIGTERM."""
    if plain:
        PlainServer(port, max_names).run()
    else:
        serve_on_own_transport(port, max_names)


if __name__ == "__main__":
    main()
