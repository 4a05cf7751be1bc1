"""The product's command that dies in the middle of what it does for gangs:
`python -m tests.e2e.gangs.faulty_gangs FILE serve ...`; FILE as in faulty_extender."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from scheduler_ext.cli import main
from scheduler_ext.cluster.client.transport import Transport
from tests.e2e.faulty_extender import Faults

# Each gang that starts has the first four; few gangs evict.
KILLS = (
    "before-nomination",
    "after-nomination",
    "before-lift",
    "after-lift",
    "before-eviction",
    "after-eviction",
)


def install(faults: Faults) -> None:
    """Wrap the product's writes."""
    send = Transport.send

    def faulty(transport: Transport, method: str, path: str, body: Any, *given: Any, **more: Any) -> Any:
        what = _what(method, path)
        if what is not None:
            faults.die_if(f"before-{what}")
        reply = send(transport, method, path, body, *given, **more)
        if what is not None:
            faults.die_if(f"after-{what}")
        return reply

    patch.object(Transport, "send", faulty).start()


def _what(method: str, path: str) -> str | None:
    if "/pods/" not in path:
        return None
    if method == "POST" and path.endswith("/eviction"):
        return "eviction"
    if method != "PATCH":
        return None
    return "nomination" if path.endswith("/status") else "lift"


if __name__ == "__main__":
    install(Faults(Path(sys.argv[1])))
    main(sys.argv[2:], prog_name="scheduler-ext")
