"""A process of the test cluster, with its log in a file, that ends with the tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_STOP_S = 10.0
_TAIL_BYTES = 4000


class ChildError(RuntimeError):
    """A process did not become ready; str() ends with the end of its log."""


class Child:
    """Runs `command` until `stop`; the kernel kills it when the thread that started it ends."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as out:
            # setpriv (util-linux) instead of preexec_fn, which is unsafe with threads.
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=None if env is None else dict(env),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The pid of the process itself, because setpriv replaces itself by it."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait_ready(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `ready` returns true; an OSError counts as false. Raises ChildError."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until and self.returncode is None:
            with contextlib.suppress(OSError):
                if ready():
                    return
            time.sleep(0.05)
        state = (
            f"exited with {self.returncode}" if self.returncode is not None else f"not ready in {timeout_s} s"
        )
        raise ChildError(f"{self.name} {state}; its log ends:\n{self.tail()}")

    def tail(self) -> str:
        """The end of the log."""
        return self.log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the process and its children, as to a whole container."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def stop(self, grace_s: float = _STOP_S) -> None:
        """Ask the process to end, and kill it after `grace_s`."""
        self._process.terminate()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the process and its children at once."""
        self.signal_all(signal.SIGKILL)
        self._process.wait()
