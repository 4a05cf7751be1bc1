"""The product's command with faults in it: `python -m tests.e2e.faulty_extender FILE serve ...`.

FILE, while it exists, names the due fault and the passage at which it happens. The process that meets the
fault removes the file. The code of the product runs unchanged; its calls are wrapped.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.binding.outcome import Outcome, Unknown
from scheduler_ext.cluster.binding_calls import Bindings
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.main import main

# In the order of a bind. The extender's processes end there by SIGKILL, as by the kernel's or a node's end.
KILLS = (
    "before-assume",
    "before-intent",
    "after-intent",
    "before-post",
    "during-post",
    "after-post",
    "before-confirm",
    "after-confirm",
)
# Each gang that starts has the first four; few gangs evict.
GANG_KILLS = (
    "before-nomination",
    "after-nomination",
    "before-lift",
    "after-lift",
    "before-eviction",
    "after-eviction",
)
# A Binding that is posted late, one with a late answer, one with a lost answer, and one that succeeds after
# it was given up.
DELAYS = ("late-post", "late-answer", "lost-answer", "late-success")
# Within bind's deadline of 4 s, and beyond kube-scheduler's of 5 s.
_LATE_S, _TOO_LATE_S = 3.0, 6.0
# A part of the duration of a POST.
_PART_S = 0.002


class Faults:
    """One process's view of FILE. Safe to use from several threads."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._passed = 0

    def due(self, place: str) -> bool:
        """Whether the fault of this place is due now."""
        with self._lock:
            try:
                wanted, number = self._file.read_text().split()
            except FileNotFoundError:
                self._passed = 0
                return False
            if wanted != place:
                return False
            self._passed += 1
            if self._passed < int(number):
                return False
            self._file.unlink()
            self._passed = 0
            return True

    def die_if(self, place: str) -> None:
        """End here if the fault is due."""
        if self.due(place):
            die()


def arm(file: Path, fault: str, number: int) -> None:
    """Trigger `fault` at the `number`-th passage of its place from now on."""
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(f"{fault} {number}")
    unfinished.replace(file)


def install(faults: Faults) -> None:
    """Wrap the product's calls."""
    deadly(faults, LockedCache, "reserve", "assume")
    deadly(faults, Bindings, "put_reservation", "intent")
    deadly(faults, LockedCache, "confirm", "confirm")
    patch.object(Bindings, "post_binding", faulty_post(faults)).start()
    patch.object(Transport, "send", faulty_send(faults)).start()


def deadly(faults: Faults, owner: type, name: str, what: str) -> None:
    """Let a method die before or after its work."""
    call = getattr(owner, name)

    def faulty(*given: Any) -> Any:
        faults.die_if(f"before-{what}")
        outcome = call(*given)
        faults.die_if(f"after-{what}")
        return outcome

    patch.object(owner, name, faulty).start()


def faulty_send(faults: Faults) -> Callable[..., Any]:
    """In the place of the call that writes; what it does for gangs may be deadly."""
    send = Transport.send

    def sent(transport: Transport, method: str, path: str, *given: Any, **more: Any) -> Any:
        what = "nothing"
        if "/pods/" in path and path.endswith("/eviction"):
            what = "eviction"
        elif "/pods/" in path and method == "PATCH":
            what = "nomination" if path.endswith("/status") else "lift"
        faults.die_if(f"before-{what}")
        reply = send(transport, method, path, *given, **more)
        faults.die_if(f"after-{what}")
        return reply

    return sent


def faulty_post(faults: Faults) -> Callable[..., Outcome[None]]:
    """In the place of the call that posts a Binding."""
    post = Bindings.post_binding

    def posted(
        api: Bindings, namespace: str, name: str, body: dict[str, Any], deadline: float
    ) -> Outcome[None]:
        def later(wait_s: float) -> None:
            time.sleep(wait_s)
            post(api, namespace, name, body, time.monotonic() + _LATE_S)

        faults.die_if("before-post")
        if faults.due("during-post"):
            threading.Thread(target=later, args=(0.0,)).start()
            time.sleep(_PART_S)
            die()
        if faults.due("late-success"):
            threading.Thread(target=later, args=(_LATE_S,)).start()
            return Unknown("no answer, and it is on its way still")
        if faults.due("late-post"):
            time.sleep(_LATE_S)
        outcome = post(api, namespace, name, body, deadline)
        faults.die_if("after-post")
        if faults.due("late-answer"):
            time.sleep(_TOO_LATE_S)
        return Unknown("the answer is lost") if faults.due("lost-answer") else outcome

    return posted


def die() -> None:
    # All processes of the container, at once.
    os.killpg(os.getpgid(0), signal.SIGKILL)
    signal.pause()


if __name__ == "__main__":
    install(Faults(Path(sys.argv[1])))
    main(sys.argv[2:], prog_name="scheduler-ext")
