"""The yardstick: Flask on gunicorn, one route that reads the whole body and decodes nothing.

By default it runs on the extender's own transport, so that what an extender takes beyond it is what it does
with the request. `--plain` runs it on gunicorn's stock gthread worker instead: the difference is what the
transport costs. Started by hand, it is given to the benchmark with `--noop-url`. Announces itself on stderr
with `ready api=http://HOST:PORT`, and answers POST to `/`.
"""

from __future__ import annotations

import sys
from typing import Any

import click
from flask import Flask, Response, request
from gunicorn.app.base import BaseApplication

from scheduler_ext.server.body import read_body
from scheduler_ext.server.gunicorn_server import run_server
from scheduler_ext.server.server_options import Apps, ServerOptions

# As large as the extender takes them by default.
MAX_BODY_BYTES = 64 * 2**20
LOOPBACK = "127.0.0.1"


def noop_app() -> Flask:
    """An app with one route that answers every POST with the same few bytes of JSON."""
    app = Flask("noop", static_folder=None)

    @app.post("/")
    def noop() -> Response:
        read_body(request.environ, MAX_BODY_BYTES)
        return Response(b'{"ok":true}', content_type="application/json")

    return app


def serve_on_own_transport(port: int) -> None:
    """Serve as `scheduler-ext serve` does, until SIGTERM."""
    options = ServerOptions((LOOPBACK, port), (LOOPBACK, 0), (LOOPBACK, 0))
    idle = Flask("idle", static_folder=None)
    run_server(options, lambda: Apps(api=noop_app(), health=idle, inspect=idle, close=lambda: None))


class PlainServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no type information
    """gunicorn's stock gthread worker on one port; takes no settings from the environment or files."""

    def __init__(self, port: int) -> None:
        self._port = port
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
        return noop_app()


def _announce(arbiter: Any) -> None:
    """gunicorn's when_ready hook: the port is the one the kernel gave."""
    port = arbiter.LISTENERS[0].sock.getsockname()[1]
    print(f"ready api=http://{LOOPBACK}:{port}", file=sys.stderr, flush=True)


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="On loopback; 0 takes a free one.")
@click.option("--plain", is_flag=True, help="gunicorn's stock worker instead of the extender's transport.")
def main(port: int, plain: bool) -> None:
    """Serve the no-op route until SIGTERM."""
    if plain:
        PlainServer(port).run()
    else:
        serve_on_own_transport(port)


if __name__ == "__main__":
    main()
