"""Reads a text in a process of its own, whose memory and time are bounded."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

_MIB = 2**20
_CHILD = """
import resource, sys
from scheduler_ext.core.errors import SchedulerExtError
from scheduler_ext.wire import config, objects, yaml_values
text = sys.stdin.buffer.read()
most = int(sys.argv[2]) + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 200 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (most, most))
read = {
    "inventory": objects.read_objects,
    "pods": objects.read_manifests,
    "posted": lambda text: objects.read_manifests(text, yaml_values.POSTED),
    "configuration": config.load_config,
}[sys.argv[1]]
try:
    read(text)
    print("read")
except SchedulerExtError as error:
    print(error)
"""


class Outcome(NamedTuple):
    """The outcome of a text: "read", or the error."""

    said: str
    stderr: str


def read_in_child(kind: str, text: bytes, *, mib: int = 64, timeout_s: float = 60) -> Outcome:
    """The outcome of reading a text as an "inventory", as "pods", "posted" or a "configuration".

    The process has this many MiB of address space beyond its initial use. Its end by a signal, an exception
    that is no SchedulerExtError, or the time-out is an error of the test.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, kind, str(mib * _MIB)],
        input=text,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr.decode()[-500:])
    return Outcome(done.stdout.decode().removesuffix("\n"), done.stderr.decode())
