"""The yardstick: the same Flask and gunicorn stack, a route that reads the whole body and decodes nothing.

Run as `python -m benchmarks.noop --listen 127.0.0.1:0`; prints `ready noop=http://HOST:PORT/noop` on stderr.
What an extender takes beyond this server is what it does with the request.
"""

from __future__ import annotations

import sys
from typing import Any

import click
from flask import Flask, Response, request
from gunicorn.app.base import BaseApplication

# The extender's own server settings, so that only the handling of the request differs.
SETTINGS: dict[str, Any] = {
    "workers": 1,
    "worker_class": "gthread",
    "threads": 8,
    "keepalive": 120,
    "graceful_timeout": 2,
    "worker_tmp_dir": "/dev/shm",
    "control_socket_disable": True,
    "loglevel": "warning",
}


def create_app() -> Flask:
    """An app with one route that answers every POST with the same few bytes of JSON."""
    app = Flask("noop")

    @app.post("/noop")
    def noop() -> Response:
        request.get_data(cache=False)
        return Response(b'{"ok":true}', mimetype="application/json")

    return app


def announce(arbiter: Any) -> None:
    """gunicorn's when_ready hook: name the port the kernel gave."""
    host, port = arbiter.LISTENERS[0].sock.getsockname()[:2]
    print(f"ready noop=http://{host}:{port}/noop", file=sys.stderr, flush=True)


class NoopServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no type information
    """gunicorn with SETTINGS on one address; takes no settings from the environment or files."""

    def __init__(self, listen: str) -> None:
        self._listen = listen
        super().__init__()

    def load_config(self) -> None:
        """Called by gunicorn to fill its configuration."""
        for name, value in {**SETTINGS, "bind": [self._listen], "when_ready": announce}.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Called by gunicorn in the worker."""
        return create_app()


@click.command()
@click.option(
    "--listen", default="127.0.0.1:0", show_default=True, help="HOST:PORT; port 0 takes a free one."
)
def main(listen: str) -> None:
    """Serve the no-op route until SIGTERM."""
    NoopServer(listen).run()


if __name__ == "__main__":
    main()
