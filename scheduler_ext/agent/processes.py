"""The pod of a host process, from its control groups. Sources: kubelet pkg/kubelet/cm
(`kubepods...pod<uid>`, by systemd and cgroupfs), proc(5), pid_namespaces(7), cgroup_namespaces(7)."""

import re
from pathlib import Path

from cachetools import LRUCache

NOT_A_POD = "host"
"""In place of a UID: a process in no pod. None stands for a process whose pod is unknown."""
_CACHED = 4096
# A process's list of control groups has a few dozen lines at most.
_MAX_BYTES = 64 * 1024
_KERNEL_THREAD = 0x00200000

# A pod's UID, or a static pod's hash in its place; systemd's names have "_" for "-".
_UID = r"([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
# cgroupfs: "pod<uid>"; systemd: "kubepods-burstable-pod<uid>.slice", with a prefix below another root, and
# with a suffix where kubelet and container runtime disagree about the driver.
_POD = re.compile(rf"pod{_UID}|(?:.*-)?kubepods(?:-besteffort|-burstable)?-pod{_UID}\.slice(?::.*)?")


class Processes:
    """Pods of processes by PID, below one procfs that shows the host's processes; for one thread. A static
    pod's UID is the kubelet's own hash, which differs from the UID of its mirror pod in the API."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._known: LRUCache[tuple[int, str], str] = LRUCache(_CACHED)

    def pod_of(self, pid: int) -> str | None:
        """The UID of a process's pod, NOT_A_POD, or None: the process is gone or unreadable. Control groups
        are read once in the life of a process, because kubelet's pods do not exchange them."""
        started = self._started(pid)
        if started is None:
            return None
        if (pid, started) in self._known:
            return self._known[pid, started]
        groups = _read(self._proc / str(pid) / "cgroup")
        pod = _pod_in(groups, _read(self._proc / "self" / "cgroup") or "") if groups is not None else None
        # Another process may have taken the PID in between.
        if pod is None or self._started(pid) != started:
            return None
        self._known[pid, started] = pod
        return pod

    def _started(self, pid: int) -> str | None:
        """When a process started, in ticks since boot; together with the PID this is unique."""
        fields = _stat_fields(self._proc, pid)
        return fields[19] if len(fields) > 19 else None


def sees_host_processes(proc: Path = Path("/proc")) -> bool:
    """Whether a procfs, and this process with it, is in the host's PID namespace (hostPID: true). Two
    conditions must hold. PID 2 is a kernel thread: kernel threads exist in the host's namespace only, and no
    process can take their flag. And this process has one PID there: a container that only mounts the host's
    /proc has two, and NVML then shows it no process but its own. False if that cannot be read."""
    fields = _stat_fields(proc, 2)
    if len(fields) <= 6 or not fields[6].isdecimal() or not int(fields[6]) & _KERNEL_THREAD:
        return False
    status = _read(proc / "self" / "status") or ""
    pids = [line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")]
    return len(pids) == 1 and len(pids[0]) == 1


def _read(path: Path) -> str | None:
    """The text of a file of procfs; None if it is gone or unreadable."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return None


def _stat_fields(proc: Path, pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the third on, as proc(5) counts: names may contain anything."""
    text = _read(proc / str(pid) / "stat") or ""
    return text.rpartition(")")[2].split()


def _paths(groups: str) -> list[str]:
    """The paths of lines "hierarchy:controllers:path"; a path may contain colons."""
    return [line.split(":", 2)[2] for line in groups.splitlines() if line.count(":") >= 2]


def _pod_in(groups: str, own: str) -> str | None:
    """The one pod of all hierarchies: version 1 has a dozen, and some of them may not contain pods."""
    paths = _paths(groups)
    uids = {uid for path in paths if (uid := _uid_in(path)) is not None}
    if len(uids) == 1:
        return uids.pop()
    # A pod in an unknown form, or hierarchies that contradict each other.
    if uids or not paths or any("kubepods" in path for path in paths):
        return None
    # In this container's own control group namespace, paths start at the container: "/" and "/../other" are
    # this pod.
    if set(_paths(own)) == {"/"} and any(path.split("/").count("..") < 2 for path in paths):
        return None
    return NOT_A_POD


def _uid_in(path: str) -> str | None:
    """The UID in the outermost part that has one: a pod may name the groups below it as it likes."""
    for part in path.removesuffix(" (deleted)").split("/"):
        if match := _POD.fullmatch(part):
            return (match[1] or match[2]).replace("_", "-")
    return None
