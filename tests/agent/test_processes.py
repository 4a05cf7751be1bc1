"""Pods of processes, read from a directory that looks like /proc; once from the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_ext.agent.processes import NOT_A_POD, Processes, sees_host_processes

UID = "1f2e3d4c-1111-2222-3333-444455556666"
OTHER = "99999999-1111-2222-3333-444455556666"
SYSTEMD = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
SCOPE = "cri-containerd-0a1b.scope"
SLICE = f"kubepods-besteffort-pod{SYSTEMD}.slice"
HOST = "0::/system.slice/sshd.service"


class Proc:
    """A procfs of files, which counts as the host's unless a test changes that."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("2/stat", self.stat(2, comm="kthreadd", flags=2129984))
        self.write("self/status", "Name:\tpython\nNSpid:\t4711\n")
        self.write("self/cgroup", "0::/kubepods.slice/agent.scope\n")

    def write(self, name: str, text: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    @staticmethod
    def stat(pid: int, *, comm: str = "python", flags: int = 4194560, started: int = 1000) -> str:
        return f"{pid} ({comm}) S 1 {pid} {pid} 0 -1 {flags} {'0 ' * 12}{started} 0 0\n"

    def process(self, pid: int, groups: str | bytes, *, comm: str = "python", started: int = 1000) -> None:
        self.write(f"{pid}/stat", self.stat(pid, comm=comm, started=started))
        self.write(f"{pid}/cgroup", groups)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


V1 = f"12:cpu,cpuacct:/kubepods/burstable/pod{UID}/0a1b\n5:devices:/kubepods/burstable/pod{UID}/0a1b\n"


@pytest.mark.parametrize(
    ("groups", "pod"),
    [
        pytest.param(
            f"0::/kubepods.slice/kubepods-besteffort.slice/{SLICE}/{SCOPE}", UID, id="v2 by systemd"
        ),
        pytest.param(f"0::/kubepods/besteffort/pod{UID}/0a1b", UID, id="v2 by cgroupfs"),
        pytest.param(V1, UID, id="v1 by cgroupfs"),
        pytest.param(f"{V1}0::/", UID, id="v1 with an unused v2 beside it"),
        pytest.param(f"0::/kubepods-burstable-pod{STATIC}.slice/x", STATIC, id="a static pod by systemd"),
        pytest.param(f"0::/{SLICE}/crio-0a1b/container", UID, id="CRI-O"),
        pytest.param(f"0::/kubelet.slice/kubelet-{SLICE}/{SCOPE}", UID, id="another root"),
        pytest.param(f"0::/system.slice/{SLICE}:cri-containerd:0a1b", UID, id="two drivers at once"),
        pytest.param(f"0::/../../{SLICE}/{SCOPE}", UID, id="seen from a control group namespace"),
        pytest.param(f"0::/kubepods/burstable/pod{UID} (deleted)", UID, id="a group that was removed"),
        pytest.param(f"0::/kubepods/pod{UID}/0a1b/pod{OTHER}", UID, id="what a pod names below itself"),
        pytest.param(HOST, NOT_A_POD, id="a service of the host"),
        pytest.param(f"0::/user.slice/pod{UID}x", NOT_A_POD, id="a group that only starts like a pod"),
        pytest.param(f"0::/{SLICE}x/y", None, id="a slice that is nearly a pod's"),
        pytest.param("0::/kubepods/besteffort/podstatic-web/0a1b", None, id="a UID of another form"),
        pytest.param("0::/kubepods.slice", None, id="among the pods but in none"),
        pytest.param(f"1:cpu:/pod{UID}\n2:pids:/pod{OTHER}", None, id="two pods at once"),
        pytest.param("", None, id="nothing"),
        pytest.param(b"\xff\xfe:\x00:\xff", NOT_A_POD, id="bytes that are no text"),
        pytest.param("0::/" + "kubepods-" * 50_000, None, id="a path without end"),
    ],
)
def test_a_process_is_in_one_pod_in_none_or_not_known(
    proc: Proc, groups: str | bytes, pod: str | None
) -> None:
    proc.process(42, groups)
    assert Processes(proc.root).pod_of(42) == pod


@pytest.mark.parametrize(
    ("groups", "pod"),
    [
        pytest.param("0::/", None, id="the agent's own container"),
        pytest.param("0::/../cri-containerd-9.scope", None, id="another container of the agent's pod"),
        pytest.param(f"0::/../../{SLICE}/{SCOPE}", UID, id="another pod"),
        pytest.param(f"0::/../../pod{UID}/0a1b", UID, id="another pod by cgroupfs"),
        pytest.param("0::/../../../../system.slice/x.service", NOT_A_POD, id="the host"),
    ],
)
def test_from_a_control_group_namespace_the_agents_own_pod_is_not_taken_for_the_host(
    proc: Proc, groups: str, pod: str | None
) -> None:
    proc.write("self/cgroup", "0::/\n")
    proc.process(42, groups)
    assert Processes(proc.root).pod_of(42) == pod


@pytest.mark.parametrize("pid", [-1, 43])
def test_a_process_that_is_gone_is_not_known(proc: Proc, pid: int) -> None:
    assert Processes(proc.root).pod_of(pid) is None


@pytest.mark.parametrize("missing", ["stat", "cgroup"])
def test_a_process_that_may_not_be_read_is_not_known(proc: Proc, missing: str) -> None:
    proc.process(42, V1)
    # A directory in its place cannot be read by root either.
    (proc.root / "42" / missing).unlink()
    (proc.root / "42" / missing).mkdir()
    assert Processes(proc.root).pod_of(42) is None


@pytest.mark.parametrize("comm", ["x) R 9 9 9 9 9 9\n9", "tmux: server"])
def test_a_name_cannot_pass_for_numbers(proc: Proc, comm: str) -> None:
    processes = Processes(proc.root)
    proc.process(42, V1, comm=comm)
    assert processes.pod_of(42) == UID
    proc.process(42, HOST, comm=comm, started=2000)
    assert processes.pod_of(42) is NOT_A_POD


def test_a_living_process_is_read_once(proc: Proc) -> None:
    processes = Processes(proc.root)
    proc.process(42, HOST)
    assert processes.pod_of(42) is NOT_A_POD
    (proc.root / "42" / "cgroup").unlink()
    assert processes.pod_of(42) is NOT_A_POD


def test_an_unreadable_process_and_another_of_its_number_are_read_again(proc: Proc) -> None:
    processes = Processes(proc.root)
    proc.process(42, "")
    assert processes.pod_of(42) is None
    proc.process(42, V1)
    assert processes.pod_of(42) == UID
    proc.process(42, HOST, started=2000)
    assert processes.pod_of(42) is NOT_A_POD


def test_a_number_that_is_taken_while_it_is_read_is_not_known(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc.process(42, V1)
    opened = Path.open

    def open_and_go(path: Path, mode: str) -> object:
        file = opened(path, mode)
        if path == proc.root / "42" / "cgroup" and mode == "rb":
            proc.process(42, HOST, started=2000)
        return file

    monkeypatch.setattr(Path, "open", open_and_go)
    assert Processes(proc.root).pod_of(42) is None


@pytest.mark.parametrize(
    ("name", "text", "sees"),
    [
        pytest.param("2/comm", "", True, id="with hostPID"),
        pytest.param("self/status", "NSpid:\t4711\t7\n", False, id="with only a mount of the host's /proc"),
        pytest.param(
            "2/stat", Proc.stat(2, comm="kthreadd"), False, id="a process that calls itself kthreadd"
        ),
        pytest.param("2/stat", Proc.stat(2, comm="a) S 0 0 0 0 -1 2097152 ("), False, id="or names flags"),
        pytest.param("2/stat", "", False, id="a PID 2 that cannot be read"),
        pytest.param("self/status", "NSpid:\n", False, id="an empty NSpid"),
    ],
)
def test_host_processes_are_seen_in_the_hosts_namespace_only(
    proc: Proc, name: str, text: str, sees: bool
) -> None:
    proc.write(name, text)
    assert sees_host_processes(proc.root) is sees


def test_without_a_procfs_nothing_is_seen(tmp_path: Path) -> None:
    assert not sees_host_processes(tmp_path)
    assert Processes(tmp_path).pod_of(os.getpid()) is None


@pytest.mark.skipif(not Path("/proc/self/cgroup").exists(), reason="needs Linux's /proc")
def test_in_the_real_procfs_a_child_is_where_its_parent_is_until_it_ends() -> None:
    processes = Processes()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert processes.pod_of(child.pid) == processes.pod_of(os.getpid())
    child.communicate(b"\n")
    assert processes.pod_of(child.pid) is None
