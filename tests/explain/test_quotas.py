"""Notes on pods that the API server would refuse by a ResourceQuota."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from scheduler_ext.explain.quotas import quota_notes
from scheduler_ext.sources.clusterstate import state_of
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_objects
from tests.kube_objects import Json, inventory, node, pod

WHOLE = "nvidia.com/gpu"
GPUS = f"requests.{WHOLE}"


def quota(hard: Json, used: Json | None = None, namespace: str = "default", **spec: Any) -> Json:
    status = {"status": {"hard": hard, "used": used}} if used is not None else {}
    metadata = {"name": "q", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": hard} | spec,
    } | status


def notes(asking: Json, copies: int, *objects: Json) -> list[str]:
    objects = (node("n", {WHOLE: "8"}), *objects)
    state = state_of(read_objects(inventory(*objects)), "inventory.yaml", Configuration().resource_names())
    decoded = msgspec.json.decode(json.dumps(asking).encode(), type=kube.Pod)
    return quota_notes([(decoded, copies)], state)


def said(limit: str, used: str, asked: str) -> list[str]:
    return [f"ResourceQuota default/q: {used} {limit} are used, and {asked}"]


ONE = "the pod asks {}: the API server refuses to create it"
CLASS = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}


@pytest.mark.parametrize(
    ("asking", "copies", "objects", "expected"),
    [
        pytest.param(
            pod("p", {WHOLE: "2"}), 1, [quota({GPUS: "8"}, {GPUS: "6"})], [], id="enough is left for the last"
        ),
        pytest.param(
            pod("p", {WHOLE: "2"}),
            1,
            [quota({GPUS: "8"}, {GPUS: "7"})],
            said(GPUS, "7 of 8", ONE.format(2)),
            id="used, by the status",
        ),
        pytest.param(
            pod("p", {WHOLE: "2"}),
            3,
            [quota({GPUS: "8"}, {GPUS: "4"})],
            said(GPUS, "4 of 8", "the 3 pods ask 6: the API server refuses to create those beyond it"),
            id="copies of a workload",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            1,
            [
                quota({GPUS: "2"}),
                *(pod(name, {WHOLE: "1"}, on="n") for name in ("x", "y")),
                pod("ended", {WHOLE: "1"}, on="n", phase="Succeeded"),
            ],
            said(GPUS, "2 of 2", ONE.format(1)),
            id="counted where no controller has: pods that have ended are free",
        ),
        pytest.param(
            pod("p", {WHOLE: "1", "memory": "2Gi"}),
            1,
            [quota({"memory": "4Gi"}, {"memory": "3Gi"}), pod("elsewhere")],
            said("memory", "3Gi of 4Gi", ONE.format("2Gi")),
            id="memory, in the units of Kubernetes",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            1,
            [quota({"count/pods": "1", "limits.cpu": "0", GPUS: "9"}, {"count/pods": "1"})],
            said("count/pods", "1 of 1", ONE.format(1)),
            id="the number of pods; limits are not requests",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}), 1, [quota({GPUS: "0"}, namespace="team")], [], id="of another namespace"
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            1,
            [quota({GPUS: "0"}, {GPUS: "0"}), pod("p", {WHOLE: "1"})],
            [],
            id="a pod that exists was admitted",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}, priorityClassName="high"),
            1,
            [quota({GPUS: "0"}, scopeSelector={"matchExpressions": [CLASS]})],
            said(GPUS, "0 of 0", ONE.format(1)),
            id="of the pod's priority class",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}, priorityClassName="low"),
            1,
            [quota({GPUS: "0"}, scopeSelector={"matchExpressions": [CLASS]})],
            [],
            id="of another priority class",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            1,
            [quota({GPUS: "0"}, scopes=["NotBestEffort"])],
            [],
            id="GPUs give no quality",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            1,
            [quota({GPUS: "0"}, scopes=["NotTerminating", "BestEffort"])],
            said(GPUS, "0 of 0", ONE.format(1)),
            id="all scopes match",
        ),
    ],
)
def test_quotas(asking: Json, copies: int, objects: list[Json], expected: list[str]) -> None:
    assert notes(asking, copies, *objects) == expected
