"""Many shares at once, and never more of them on a GPU than it has memory.

GPU_SHARE_RACES is the number of rounds; a hundred take two minutes.
"""

from __future__ import annotations

import os

from tests.e2e.cluster.api import eventually
from tests.e2e.history import Recorder
from tests.e2e.shares.share_workload import HALF, ShareWorkload

ROUNDS = int(os.environ.get("GPU_SHARE_RACES", "5"))
PODS = 16
# Reports are stale after 150 s.
_RENEW_EVERY = 20


def test_every_gpu_gets_two(share_workload: ShareWorkload) -> None:
    workload = share_workload
    stems = ("shared-a", "shared-b")
    for stem in stems:
        workload.add_shared(stem, 4)
    workload.publish()
    gpus = [workload.gpu(stem, i) for stem in stems for i in range(4)]
    with Recorder(workload.api, workload.namespace) as recorder:
        for number in range(ROUNDS):
            if number % _RENEW_EVERY == 0:
                workload.renew()
            workload.create_all([workload.share(HALF) for _ in range(PODS)])
            eventually(lambda: len(workload.bound()) == PODS, f"all pods of round {number} are bound", 60.0)
            assert workload.pods_by_gpu() == dict.fromkeys(gpus, 2)
            workload.remove_all()
    assert workload.wrongs(recorder) == []
