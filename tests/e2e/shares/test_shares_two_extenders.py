"""Two extenders that both believe that they are active, each with its own scheduler: still no GPU is promised
twice, neither shares of it nor all of it. In production this is an accident: a paused leader continues.

GPU_SHARE_RACES is the number of rounds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster.api import eventually
from tests.e2e.history import Recorder
from tests.e2e.installation import MANIFESTS
from tests.e2e.kustomization import write_kustomization
from tests.e2e.shares.share_workload import HALF, ShareWorkload, running_share_installation

ROUNDS = int(os.environ.get("GPU_SHARE_RACES", "5"))
PODS = 16
# Reports are stale after 150 s.
RENEW_EVERY = 10
# There are fewer whole GPUs than requested.
WHOLE, GPUS = 6, 4
PLACES = PODS + GPUS


def without_leases(directory: Path) -> Path:
    """The overlay for shares, whose schedulers hold no election and whose extenders follow none."""
    shares = MANIFESTS / "components" / "shares" / "kube-scheduler.yaml"
    configuration = yaml.safe_load(shares.read_bytes())
    configuration["leaderElection"] = {"leaderElect": False}
    lease = "/spec/template/spec/containers/1/args/3"
    changes = [
        {"op": "test", "path": lease, "value": "--lease=gpu-scheduler/gpu-scheduler"},
        {"op": "remove", "path": lease},
    ]
    target = {"kind": "Deployment", "name": "gpu-scheduler"}
    return write_kustomization(
        directory,
        "overlays/shares",
        files={"kube-scheduler.yaml": yaml.safe_dump(configuration)},
        patches=[{"target": target, "patch": yaml.safe_dump(changes)}],
    )


@pytest.fixture
def workload(tmp_path: Path) -> Iterator[ShareWorkload]:
    overlay = without_leases(tmp_path / "overlay")
    with (
        running_share_installation(tmp_path, overlay) as installation,
        ShareWorkload(installation) as workload,
    ):
        yield workload


def test_both_bind_and_nothing_is_promised_twice(workload: ShareWorkload) -> None:
    installation = workload.installation
    stems = ("shared-a", "shared-b")
    for stem in stems:
        workload.add_shared(stem, 4)
    workload.add_whole("whole", GPUS)
    workload.publish()
    gpus = [workload.gpu(stem, i) for stem in stems for i in range(4)]
    eventually(lambda: installation.metric("gpu_extender_active") == 2, "both are active")
    with Recorder(workload.api, workload.namespace) as recorder:
        for number in range(ROUNDS):
            if number % RENEW_EVERY == 0:
                workload.renew()
            shares = [workload.share(HALF) for _ in range(PODS)]
            workload.create_all(shares + [workload.pod({"nvidia.com/gpu": "1"}) for _ in range(WHOLE)])
            eventually(lambda: len(workload.bound()) >= PLACES, f"all GPUs are bound, round {number}", 90.0)
            assert workload.pods_by_gpu() == dict.fromkeys(gpus, 2)
            workload.remove_all()
    assert workload.wrongs(recorder) == []
    binds = [
        installation.metric_of(pod, "gpu_extender_bind_total", result="bound") for pod in installation.pods()
    ]
    assert all(binds), "both have bound some"
    conflicts = installation.metric("gpu_extender_bind_conflicts_total", kind="fence")
    assert conflicts > 0, "they met, and it was counted"
