"""The pods of the scheduler suite: training pods that request GPUs of any node.

They are the latency suite's pods without parts that this cluster lacks: their Job, their claims, a
ServiceAccount and a priority class. Either all are alike, equal to the byte except for their names, like
those of one Job or Deployment: kube-scheduler without an extender may then reuse its scores (opportunistic
batching, which compares images, volumes, tolerations and requests). Or all differ: in images, labels and
variables, and in a small amount of free MiB that every node has, so that an extender that remembers decisions
must make each again, as with an inventory that changes with every binding.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.cluster import NodeClass
from benchmarks.pods import pod_json
from benchmarks.shapes import PodShape
from tests.e2e.cluster.api import Api

NAMESPACE = "default"
PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
_LEAST_FREE_MIB = 20_000
_CREATORS = 4
_GONE_S = 120.0
_PAUSE_S = 0.05
_FOREIGN = ("serviceAccountName", "serviceAccount", "priority", "preemptionPolicy")


def pods(count: int, seed: int, alike: bool, gpus: int = 1) -> Iterator[dict[str, Any]]:
    """`count` pods of `gpus` GPUs for the scheduler of config/kube-scheduler.yaml; the same arguments give
    the same pods.
    """
    rng = random.Random(f"{seed}/scheduler/pods")
    first = _pod(rng, gpus, 0)
    for number in range(count):
        pod = first if alike or number == 0 else _pod(rng, gpus, number)
        name = f"{pod['metadata']['name']}-{number}"
        yield {**pod, "metadata": {**pod["metadata"], "name": name}}


def _pod(rng: random.Random, gpus: int, extra_mib: int) -> dict[str, Any]:
    wish = {"gpu.scheduler-ext.io/min-free-memory": f"{_LEAST_FREE_MIB + extra_mib}Mi"}
    shape = PodShape(({"nvidia.com/gpu": str(gpus)},), frozenset(NodeClass), wish)
    return _admissible(json.loads(pod_json(shape, rng)))


def _admissible(pod: dict[str, Any]) -> dict[str, Any]:
    described, spec = pod["metadata"], pod["spec"]
    kept = {key: value for key, value in spec.items() if key not in _FOREIGN}
    kept["volumes"] = [_without_claim(volume) for volume in spec["volumes"]]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": described["name"],
            "labels": described["labels"],
            "annotations": described["annotations"],
        },
        "spec": kept,
    }


def _without_claim(volume: dict[str, Any]) -> dict[str, Any]:
    return {"name": volume["name"], "emptyDir": {}} if "persistentVolumeClaim" in volume else volume


def create_pods(api: Api, count: int, seed: int, alike: bool, gpus: int = 1) -> None:
    """Create `pods`, several at a time. Raises ApiError."""
    with ThreadPoolExecutor(_CREATORS) as pool:
        for _ in pool.map(lambda pod: api.create(PATH, pod), pods(count, seed, alike, gpus)):
            pass


def delete_pods(api: Api) -> None:
    """Delete all pods and wait until they are gone. Raises ApiError, and TimeoutError if some stay."""
    api.request("DELETE", PATH, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    until_s = time.monotonic() + _GONE_S
    while api.items(PATH, limit="1"):
        if time.monotonic() > until_s:
            raise TimeoutError(f"pods that were deleted are still there after {_GONE_S:g} s")
        time.sleep(_PAUSE_S)
