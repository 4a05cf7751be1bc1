"""The kubelet's server for kube-apiserver: connections to the ports of pods, and the logs of containers.

A Go program (kubelet_server/ beside this package) serves the first with Kubernetes' own library, and forwards
the second to the Unix socket here, where it also looks up the loopback port of a pod's port.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.e2e.cluster.child import Child
from tests.e2e.cluster.credentials import Credentials
from tests.e2e.cluster.ports import LOOPBACK
from tests.e2e.cluster.running_pod import RunningPod

_START_S = 30.0

PodNamed = Callable[[str, str], RunningPod | None]
"""(namespace, name) -> the pod, if it runs for real."""


class _RefusedError(Exception):
    """`status` is the HTTP code, str() the reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, pod: PodNamed) -> None:
        super().__init__(str(path), _Handler)
        self.pod = pod


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        try:
            status, body = 200, self._answer()
        except _RefusedError as refused:
            status, body = refused.status, str(refused).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """A Unix socket's client has no address for the log."""

    def _answer(self) -> bytes:
        url = urlsplit(self.path)
        _, what, namespace, name, which = url.path.split("/")
        pod = self.server.pod(namespace, name)
        if pod is None:
            raise _RefusedError(404, f"pod {namespace}/{name} does not run here")
        if what == "ports":
            return str(pod.ports.local(int(which))).encode()
        if which not in pod.containers:
            raise _RefusedError(404, f"pod {namespace}/{name} has no container {which}")
        options = {name: values[-1] for name, values in parse_qs(url.query).items()}
        return _shortened(pod.containers[which].log.read_bytes(), options)


def _shortened(log: bytes, options: dict[str, str]) -> bytes:
    """The last `tailLines` of a log, and of these the first `limitBytes`, as in the kubelet."""
    if unknown := options.keys() - {"tailLines", "limitBytes"}:
        raise _RefusedError(400, f"the kubelet of the tests has no {', '.join(sorted(unknown))}")
    if "tailLines" in options:
        lines = log.splitlines(keepends=True)
        log = b"".join(lines[max(0, len(lines) - int(options["tailLines"])) :])
    return log[: int(options["limitBytes"])] if "limitBytes" in options else log


def _accepts_connections(port: int) -> bool:
    with socket.create_connection((LOOPBACK, port)):
        return True


@contextlib.contextmanager
def running_kubelet_server(
    binary: Path, credentials: Credentials, directory: Path, port: int, pod: PodNamed
) -> Iterator[None]:
    """A kubelet's server on a port of loopback, for kube-apiserver alone; its log is in `directory`."""
    with contextlib.ExitStack() as stack:
        # Short, because sockets have paths of at most 107 characters.
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubelet-")), "socket")
        server = stack.enter_context(_Server(own, pod))
        thread = threading.Thread(target=server.serve_forever, name="kubelet-server", daemon=True)
        thread.start()
        stack.callback(server.shutdown)
        command = (
            binary,
            f"-listen={LOOPBACK}:{port}",
            f"-cert={credentials.serving_cert_file}",
            f"-key={credentials.serving_key_file}",
            f"-client-ca={credentials.ca_file}",
            f"-kubelet={own}",
        )
        child = Child("kubelet-server", command, directory / "kubelet-server.log")
        stack.callback(child.stop)
        child.wait_ready(lambda: _accepts_connections(port), _START_S)
        yield
