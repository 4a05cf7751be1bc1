"""Reads texts in a process of its own, whose memory and time are bounded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

_MIB = 2**20
_CHILD = """
import json, resource, sys
from scheduler_ext.core.errors import SchedulerExtError
from scheduler_ext.wire import config, objects, yaml_values
texts = json.load(sys.stdin)
most = int(sys.argv[2]) + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 200 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (most, most))
read = {
    "inventory": objects.read_objects,
    "pods": objects.read_manifests,
    "posted": lambda text: objects.read_manifests(text, yaml_values.POSTED),
    "configuration": config.load_config,
}[sys.argv[1]]
def outcome(text):
    try:
        read(text.encode())
        return "read"
    except SchedulerExtError as error:
        return str(error)
print(json.dumps([outcome(text) for text in texts]))
"""


def read_in_child(kind: str, texts: Sequence[str], *, mib: int = 64, timeout_s: float = 60) -> list[str]:
    """The outcome of reading each text as an "inventory", as "pods", "posted" or a "configuration".

    An outcome is "read" or the error. One process reads all texts, within so many MiB of address space beyond
    its size at the start. Its end by a signal, an exception that is no SchedulerExtError, or the time-out is
    an error of the test.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, kind, str(mib * _MIB)],
        input=json.dumps(list(texts)).encode(),
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr.decode()[-500:])
    outcomes: list[str] = json.loads(done.stdout)
    return outcomes
