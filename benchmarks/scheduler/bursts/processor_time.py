"""The processor time of the processes that take part in a burst."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_OTHERS = ("etcd", "kube-apiserver", "kube-controller", "kube-scheduler")


def processor_time() -> dict[str, float]:
    """The seconds that this process's descendants have used so far, by name; `extender` is every one that is
    no part of the control plane. Source: proc_pid_stat(5)."""
    parents: dict[int, int] = {}
    used: dict[int, tuple[str, float]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:
            # It has ended meanwhile.
            continue
        name, rest = text[text.index("(") + 1 :].rsplit(")", 1)
        fields = rest.split()
        parents[int(entry.name)] = int(fields[1])
        used[int(entry.name)] = name, (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    total = dict.fromkeys((*_OTHERS, "extender"), 0.0)
    for pid, (name, seconds) in used.items():
        if _descends(pid, parents):
            total[next((each for each in _OTHERS if name.startswith(each)), "extender")] += seconds
    return total


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid := parents.get(pid, 0):
        if pid == os.getpid():
            return True
    return False
