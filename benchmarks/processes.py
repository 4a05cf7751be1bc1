"""Starting and stopping the processes of a measurement: the extender, the no-op server, the load generator.

Servers announce themselves with one stderr line `ready NAME=URL ...`. Children live in sessions of their own,
so that Ctrl-C reaches only the benchmark, which then stops them.
"""

from __future__ import annotations

import collections
import contextlib
import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.client import Plan, VerbMeasurement

_REPOSITORY = Path(__file__).resolve().parent.parent
_READY_S = 300.0
_STOP_S = 15.0
_EXTENDER_ARGUMENTS = ("--listen", "--health-listen", "--inspect-listen")


class ProcessError(RuntimeError):
    """A child that did not start or did not finish; the message ends with the last lines of its stderr."""


def extender_command(inventory: Path, config: Path | None = None, source: str = "--inventory") -> list[str]:
    """The product's serve command on free loopback ports, with the default configuration unless another is
    given. With the source "--kubeconfig", the file is one.
    """
    listen = [part for option in _EXTENDER_ARGUMENTS for part in (option, "127.0.0.1:0")]
    configured = [] if config is None else ["--config", str(config)]
    serve = [sys.executable, "-m", "scheduler_ext", "serve", source, str(inventory)]
    return [*serve, *configured, *listen]


def noop_command(max_names: int = 0) -> list[str]:
    """The no-op server on a free loopback port, whose filter returns the first `max_names` (0: all)."""
    return [sys.executable, "-m", "benchmarks.noop", "--names", str(max_names)]


@contextlib.contextmanager
def running_server(command: Sequence[str], announced: str) -> Iterator[str]:
    """Start `command`, yield the URL that its ready line gives for `announced`, and stop it at the end.

    Raises ProcessError if the line does not come within five minutes.
    """
    with running_listeners(command) as url_of:
        yield url_of(announced)


@contextlib.contextmanager
def running_listeners(command: Sequence[str]) -> Iterator[Callable[[str], str]]:
    """The same for a server with several listeners: what it yields gives the URL announced for a name."""
    with running_process(command) as (url_of, _):
        yield url_of


@contextlib.contextmanager
def running_process(command: Sequence[str]) -> Iterator[tuple[Callable[[str], str], int]]:
    """The same, with the id of the process that was started."""
    process = subprocess.Popen(
        # setpriv (util-linux): if this process is killed, the kernel ends the server.
        ["setpriv", "--pdeathsig", "KILL", "--", *command],
        cwd=_REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    watch = _StderrWatch(process, shlex.join(command))
    try:
        yield watch.ready_url, process.pid
    finally:
        _stop(process)
        watch.join()


class _StderrWatch:
    """Reads a server's stderr to the end, so that it never blocks on it; remembers the last lines."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        self._process = process
        self._name = name
        self._last: collections.deque[str] = collections.deque(maxlen=15)
        self._ready = ""
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._last.append(line)
                if line.startswith("ready ") and not self._ready:
                    self._ready = line
                    self._settled.set()
        self._settled.set()

    def ready_url(self, announced: str) -> str:
        self._settled.wait(_READY_S)
        found = re.search(rf"\b{announced}=(\S+)", self._ready)
        if not found:
            tail = "".join(self._last) or "(nothing)\n"
            raise ProcessError(f"{self._name} announced no `ready {announced}=URL`; its stderr ends:\n{tail}")
        return found[1]

    def join(self) -> None:
        self._thread.join(_STOP_S)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def measure(plan: Plan) -> list[VerbMeasurement]:
    """Run `plan` in a load generator of its own; raises ProcessError when that fails."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.client"],
        cwd=_REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(json.dumps(asdict(plan)))
    finally:
        if process.poll() is None:
            _stop(process)
    if process.returncode != 0:
        raise ProcessError(f"the load generator exited with {process.returncode}:\n{err[-2000:]}")
    return [VerbMeasurement(**fields) for fields in json.loads(out)]
