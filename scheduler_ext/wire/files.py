"""Files that may never answer: a pipe that nothing writes to, or a mount whose server is gone.

The kernel lets a process that opens or reads such a file wait without end. So another thread does it, which
is left behind where it gets no answer in time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

# A local file opens within microseconds, one on a slow mount within a second or two.
OPEN_S = 10.0
# Between two pieces. What writes to a pipe may have to ask a cluster first.
SILENCE_S = 30.0
_PIECE = 1 << 20
_HINT = "is it a pipe that nothing writes to, or on a mount that does not answer?"
Identity = tuple[int, ...] | None


class UnansweredError(TimeoutError):
    """An OSError: the file system gave no answer in time."""

    def __init__(self, problem: str) -> None:
        super().__init__(errno.ETIMEDOUT, f"{problem}; {_HINT}")


def read_file(path: Path) -> bytes:
    """All of a file. Raises OSError; UnansweredError where nothing comes for too long."""
    answers: SimpleQueue[bytes | Exception | None] = SimpleQueue()
    Thread(target=_read, args=(path, answers.put), name="read-file", daemon=True).start()
    pieces: list[bytes] = []
    limit_s, problem = OPEN_S, f"not opened within {OPEN_S:g} s"
    while True:
        try:
            answer = answers.get(timeout=limit_s)
        except Empty:
            raise UnansweredError(problem) from None
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            return b"".join(pieces)
        pieces.append(answer)
        limit_s, problem = SILENCE_S, f"nothing came from it for {SILENCE_S:g} s"


def _read(path: Path, answer: Callable[[bytes | Exception | None], None]) -> None:
    try:
        with path.open("rb", buffering=0) as file:
            answer(b"")
            while piece := file.read(_PIECE):
                answer(piece)
        answer(None)
    except Exception as error:
        answer(error)


class FileLook:
    """What a file's name leads to now; for one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Of a look that got no answer yet: there is never more than one.
        self._answer: SimpleQueue[Identity] | None = None

    def identity(self) -> Identity:
        """What is another when the file is; None without one. Raises UnansweredError."""
        if self._answer is None:
            self._answer = SimpleQueue()
            Thread(target=self._look, args=(self._answer,), name="look-at-file", daemon=True).start()
        try:
            identity = self._answer.get(timeout=OPEN_S)
        except Empty:
            raise UnansweredError(f"no answer within {OPEN_S:g} s") from None
        self._answer = None
        return identity

    def _look(self, answer: SimpleQueue[Identity]) -> None:
        try:
            stat = self._path.stat()
        except (OSError, ValueError):
            answer.put(None)
        else:
            # A change of rights changes nothing else of a file.
            readable = os.access(self._path, os.R_OK)
            answer.put((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, readable))
