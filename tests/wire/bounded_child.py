"""Reads texts in a process of its own, whose memory and time are bounded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

_CHILD = """
import json, resource, sys
from scheduler_ext.core.errors import SchedulerExtError
from scheduler_ext.wire import config, objects, yaml_values
texts = json.load(sys.stdin)
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 264 * 2**20
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


def read_in_child(kind: str, texts: Sequence[str]) -> list[str]:
    """What came of each text, as an "inventory", "pods", "posted" or a "configuration": "read", or the
    error. One process reads all, within its size at the start and 264 MiB; any other end of it is an error.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, kind],
        input=json.dumps(texts).encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, (done.returncode, done.stderr.decode()[-500:])
    outcomes: list[str] = json.loads(done.stdout)
    return outcomes
