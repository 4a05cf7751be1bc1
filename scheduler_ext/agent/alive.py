"""Liveness of the agent's loop: its heartbeat, and the probe that the kubelet runs to check it. `python3 -m
scheduler_ext.agent.alive FILE` is the liveness probe. It starts once a minute on every GPU node, so this
file imports almost nothing: a run takes some 25 ms of CPU, a run of the full command 60 ms."""

import os
import sys
import time

STUCK_AFTER_S = 120.0
# The watchdog in the process logs the cause, so it gets to act before the probe.
_PROBE_LATER = 1.25
_WIDTH = 24


class Pulse:
    """The time of the loop's last heartbeat, for the watchdog in this process and the probe outside it. The
    file contains the time at which the next heartbeat is due, in seconds of the machine's monotonic clock,
    because a wall clock may be set."""

    def __init__(self, stuck_after_s: float = STUCK_AFTER_S, file: str | None = None) -> None:
        """Raises OSError if the file cannot be written."""
        self.stuck_after_s = stuck_after_s
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(file, flags, 0o644) if file is not None else None
        self.beat()

    def beat(self, bounded_s: float = 0.0) -> None:
        """Record a heartbeat; the next step takes at most `bounded_s`, unless it is a driver call."""
        self.last = time.monotonic()
        if self._descriptor is not None:
            due = self.last + bounded_s + self.stuck_after_s * _PROBE_LATER
            os.pwrite(self._descriptor, f"{due:<{_WIDTH}.3f}".encode(), 0)

    def quiet_for_s(self) -> float:
        return time.monotonic() - self.last


def main(arguments: list[str]) -> int:
    """The exit status: 0 unless the heartbeat is overdue; then 1, with the reason on standard error."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python3 -m scheduler_ext.agent.alive FILE\n")
        return 2
    try:
        descriptor = os.open(arguments[0], os.O_RDONLY)
        due = float(os.read(descriptor, _WIDTH))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"the agent has not started: {error}\n")
        return 1
    late_s = time.monotonic() - due
    if late_s > 0:
        sys.stderr.write(f"the agent's loop is stuck; its heartbeat is overdue by {late_s:.0f} s\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
