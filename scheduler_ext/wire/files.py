"""Reading of files that may never answer, such as a pipe without a writer, or never end. On a dead mount the
kernel lets a process wait forever for open or read. Therefore another thread does both, and is abandoned if
it gets no answer in time; a Background could not be stopped then. A device such as /dev/zero never ends, so
no file is read beyond a limit."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import BinaryIO

# A local file opens within microseconds, a file on a slow mount within a second or two.
OPEN_S = 10.0
# Between two pieces. The writer of a pipe may have to query a cluster first.
SILENCE_S = 30.0
_PIECE = 1 << 20
# The objects of 5,000 nodes and 50,000 pods, as printed by kubectl, have some 500 MiB.
MAX_BYTES = 2**30
# The largest public traces of GPU clusters that can be simulated have some 70 MiB.
MAX_TRACE_BYTES = 256 * 2**20
# A configuration has some kilobytes, a kubeconfig for many clusters some hundred.
MAX_CONFIGURATION_BYTES = 16 * 2**20
_HINT = "is it a pipe that nothing writes to, or on a mount that does not answer?"
Identity = tuple[int, ...] | None


class UnansweredError(TimeoutError):
    """An OSError: the file system did not answer in time."""

    def __init__(self, problem: str) -> None:
        super().__init__(errno.ETIMEDOUT, f"{problem}; {_HINT}")


class FileTooLargeError(OSError):
    """The file has more bytes than the limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(errno.EFBIG, f"larger than {max_bytes >> 20:,} MiB, the most that is read")


def read_file(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The whole file. Raises OSError; UnansweredError if nothing comes for too long, FileTooLargeError if
    there are more than `max_bytes`."""
    answers: SimpleQueue[bytes | Exception | None] = SimpleQueue()
    Thread(target=_read, args=(path, max_bytes, answers.put), name="read-file", daemon=True).start()
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


def read_stream(stream: BinaryIO, max_bytes: int = MAX_BYTES) -> bytes:
    """The rest of a stream such as standard input. Raises OSError, FileTooLargeError."""
    return b"".join(_pieces(stream.read, max_bytes))


def _read(path: Path, max_bytes: int, answer: Callable[[bytes | Exception | None], None]) -> None:
    try:
        with path.open("rb", buffering=0) as file:
            answer(b"")
            if os.fstat(file.fileno()).st_size > max_bytes:
                raise FileTooLargeError(max_bytes)
            for piece in _pieces(file.read, max_bytes):
                answer(piece)
        answer(None)
    except Exception as error:
        answer(error)


def _pieces(read: Callable[[int], bytes | None], max_bytes: int) -> Iterator[bytes]:
    left = max_bytes
    while piece := read(_PIECE):
        left -= len(piece)
        if left < 0:
            raise FileTooLargeError(max_bytes)
        yield piece


class FileLook:
    """The present identity of a file by its name; for one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # A lookup that has no answer yet; there is never more than one.
        self._answer: SimpleQueue[Identity] | None = None

    def identity(self) -> Identity:
        """A value that differs if the file differs; None if there is no file. Raises UnansweredError."""
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
            # A change of permissions changes nothing else of a file.
            readable = os.access(self._path, os.R_OK)
            answer.put((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, readable))
