"""The commands, run in this process on a small cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from scheduler_ext.main import main
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import GFD_H100, SHARE, Json, gpu, gpu_node, holder, inventory, node, owned, pod

WHOLE, ONE_G, THREE_G = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
FORMS: dict[str, Callable[[str], Any]] = {"json": json.loads, "yaml": yaml.safe_load}
CONFIGURED: Json = {"apiVersion": "config.scheduler-ext.io/v1alpha1", "kind": "ExtenderConfiguration"}
KINDS = {"Node": NODES, "GPUNode": GPU_NODES, "Pod": PODS}
Written = Callable[[str, Any], Path]
_REPORTED = {"reportedAt": "2026-01-20T12:00:00Z"}
_IDLE: Json = {"idleSeconds": 7200, "utilizationPercent": 0}
_SHARED = {"totalMiB": 80000, "usedMiB": 30000, "unaccountedMiB": 10000}


def _running(name: str, limits: Json, on: str, namespace: str = "default", **more: Any) -> Json:
    """A pod of a StatefulSet that has run since the day before the reports."""
    found = pod(name, limits, on=on, **more)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": "o", "controller": True}
    found["metadata"] |= {"namespace": namespace, "ownerReferences": [owner]}
    found["status"]["startTime"] = "2026-01-19T12:00:00Z"
    return found


def _waiting(name: str, limits: Json, **more: Any) -> Json:
    found = pod(name, limits, **more)
    found["metadata"]["creationTimestamp"] = "2026-01-20T11:00:00Z"
    return found


def _peak(name: str, mib: int) -> Json:
    return {"uid": f"uid-{name}", "memoryMiB": min(mib, 20000), "peakMiB": mib}


def _instance(at: int, profile: str, size: int = 1, **more: Any) -> Json:
    return {"uuid": f"MIG-{at}", "profile": profile, "start": at, "size": size} | more


def _cordoned(report: Json, uuids: str) -> Json:
    report["metadata"]["annotations"] = {"gpu.scheduler-ext.io/cordoned": uuids}
    return report


_MIG = [
    _instance(0, "3g.40gb", 4),
    _instance(4, "1g.10gb", holder=holder("small")),
    _instance(5, "1g.10gb"),
]
_IDLE_GPU = [gpu(0, "GPU-b0", holders=[holder("busy"), _peak("busy", 6000)], **_IDLE)]
# A sick GPU and a free one; a held one that is idle; MIG; shares; GPUs of which it is not known who holds
# which; GPUs known by labels; and none.
CLUSTER = [
    _cordoned(
        gpu_node(
            "a100-1",
            [gpu(0, "GPU-a0"), gpu(1, "GPU-a1", health={"state": "Unhealthy", "reason": "XID 79"})],
            **_REPORTED,
        ),
        "GPU-gone",
    ),
    node("a100-1", {WHOLE: "1"}),
    gpu_node("a100-2", _IDLE_GPU, **_REPORTED),
    node("a100-2", {WHOLE: "1"}),
    _running("busy", {WHOLE: "1"}, "a100-2"),
    gpu_node(
        "mig-1",
        [gpu(0, "GPU-m0", mig={"enabled": True, "instances": _MIG})],
        migStrategy="mixed",
        **_REPORTED,
    ),
    node("mig-1", {THREE_G: "1", ONE_G: "2"}),
    _running("small", {ONE_G: "1"}, "mig-1"),
    _running("notebook", {ONE_G: "1"}, "mig-1"),
    gpu_node(
        "shared-1",
        [
            gpu(
                0,
                "GPU-s0",
                memory=_SHARED,
                holders=[_peak("part", 21000)],
            )
        ],
        **_REPORTED,
    ),
    node("shared-1", {SHARE: "72000"}, labels={"gpu.scheduler-ext.io/sharing": "memory"}),
    _running(
        "part", {SHARE: "20000"}, "shared-1", annotations={"devices.gpu.scheduler-ext.io/main": "GPU-s0"}
    ),
    gpu_node("unseen-1", [gpu(0, "GPU-u0"), gpu(1, "GPU-u1")], **_REPORTED),
    node("unseen-1", {WHOLE: "2"}),
    _running("theirs", {WHOLE: "1"}, "unseen-1", "research"),
    node("labels-1", {WHOLE: "8"}, labels=GFD_H100),
    node("cpu-1"),
    _waiting("waits", {WHOLE: "2"}, annotations={"gpu.scheduler-ext.io/model": "A100"}),
    _waiting("fits", {THREE_G: "1"}),
]


def saved(started: str) -> bytes:
    """An inventory whose newest report is of 2026-01-05 at noon. A GPU in it computed nothing for two hours,
    and a pod that started at that time holds it."""
    device = gpu(0, model="H100-80GB", holders=[holder("p")], idleSeconds=7200)
    running = owned(pod("p", {WHOLE: "1"}, on="n", schedulerName="gpu-scheduler"))
    running["status"]["startTime"] = started
    reported = gpu_node("n", [device, gpu(1)], reportedAt="2026-01-05T12:00:00Z")
    return inventory(reported, node("n", {WHOLE: "2"}), running)


def run(*args: str | Path, stdin: bytes | None = None, env: dict[str, str] | None = None) -> Result:
    """The output of a command line, and its exit code."""
    words = [str(arg) for arg in args]
    return CliRunner().invoke(main, words, input=stdin, env=env, prog_name="scheduler-ext")


def of_all_sources(words: Sequence[str], flag: str, cluster: Path, kubeconfig: Path) -> list[Result]:
    """The outputs of a command on the cluster of these tests: from a file, from standard input, from a live
    cluster, and from one that is chosen as kubectl does."""
    return [
        run(*words, flag, cluster),
        run(*words, flag, "-", stdin=inventory(*CLUSTER)),
        run(*words, "--kubeconfig", kubeconfig),
        run(*words, env={"KUBECONFIG": f"/nowhere:{kubeconfig}"}),
    ]


def error_of(result: Result, code: int = 1) -> str:
    """The single line of an error on stderr."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").rstrip("\n")


@contextmanager
def serving(*objects: Json) -> Iterator[ApiServer]:
    """An API server with these objects."""
    with ApiServer() as server:
        for each in objects:
            server.store.put(KINDS[each["kind"]], each)
        yield server
