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
from tests.dra_objects import (
    claim_template,
    device_class,
    gpu_device,
    request,
    resource_claim,
    resource_slice,
)
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


def notes(asking: Json, copies: int, *objects: Json, allocatable: Json | None = None) -> list[str]:
    objects = (node("n", {WHOLE: "8"} if allocatable is None else allocatable), *objects)
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
            [quota({"count/pods": "1", GPUS: "9"}, {"count/pods": "1"})],
            said("count/pods", "1 of 1", ONE.format(1)),
            id="the number of pods",
        ),
        pytest.param(
            pod("p", {WHOLE: "1", "memory": "2Gi"}),
            1,
            [quota({"limits.memory": "4Gi", "requests.memory": "4Gi"}, {"limits.memory": "3Gi"})],
            said("limits.memory", "3Gi of 4Gi", ONE.format("2Gi")),
            id="limits",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            1,
            [quota({"limits.memory": "9Gi", "limits.ephemeral-storage": "9Gi"})],
            [
                "ResourceQuota default/q counts limits.memory, of which main states no amount: the API "
                "server refuses to create the pod, unless a LimitRange gives a default"
            ],
            id="CPU and memory, of which each container has to state an amount",
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


DEVICES = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
CLAIMS = "count/resourceclaims.resource.k8s.io"
REFUSED = "claims of the pod ask {}: the API server refuses to create them, and the pod waits"


def claiming(name: str = "p", claim: str = "", **more: Any) -> Json:
    """A pod with a claim of that name, or by the template `asked`."""
    by = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": "asked"}
    return pod(name, resourceClaims=[{"name": "gpu", **by}], **more)


@pytest.mark.parametrize(
    ("asking", "copies", "objects", "expected"),
    [
        pytest.param(claiming(), 1, [quota({DEVICES: "4"}, {DEVICES: "2"})], [], id="enough is left"),
        pytest.param(
            claiming(),
            1,
            [quota({DEVICES: "4"}, {DEVICES: "3"})],
            said(DEVICES, "3 of 4", REFUSED.format(2)),
            id="devices of a class",
        ),
        pytest.param(
            claiming(),
            3,
            [quota({CLAIMS: "2"}, {CLAIMS: "0"})],
            said(CLAIMS, "0 of 2", REFUSED.format(3)),
            id="the number of claims, one for each copy",
        ),
        pytest.param(
            claiming(),
            1,
            [quota({GPUS: "4"}, {GPUS: "3"})],
            said(GPUS, "3 of 4", REFUSED.format(2)),
            id="the extended resource that the class serves",
        ),
        pytest.param(
            claiming(),
            1,
            [quota({"requests.deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"})],
            said("requests.deviceclass.resource.kubernetes.io/gpu.nvidia.com", "0 of 1", REFUSED.format(2)),
            id="the implicit resource of the class",
        ),
        pytest.param(
            claiming(),
            1,
            [quota({DEVICES: "3"}), resource_claim("held", request(2), on="n", devices=["gpu-0", "gpu-1"])],
            said(DEVICES, "2 of 3", REFUSED.format(2)),
            id="counted where no controller has: the claims there",
        ),
        pytest.param(
            claiming(claim="own"),
            3,
            [quota({CLAIMS: "1"}, {CLAIMS: "1"}), resource_claim("own", request(2))],
            [],
            id="a claim that is there was admitted",
        ),
        pytest.param(
            claiming(),
            1,
            [quota({DEVICES: "1"}, {DEVICES: "0"}), claiming()],
            said(DEVICES, "0 of 1", REFUSED.format(2)),
            id="a pod that waits for its claims",
        ),
        pytest.param(
            claiming(),
            1,
            [
                quota({DEVICES: "1"}, {DEVICES: "0"}),
                claiming(
                    on="n", status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}
                ),
            ],
            [],
            id="a pod that runs has its claims",
        ),
        pytest.param(
            claiming(), 1, [quota({DEVICES: "0"}, scopes=["BestEffort"])], [], id="scopes are about pods"
        ),
        pytest.param(
            pod("p", {WHOLE: "2"}),
            1,
            [quota({DEVICES: "1", GPUS: "2"}, {DEVICES: "0", GPUS: "0"})],
            said(DEVICES, "0 of 1", REFUSED.format(2)),
            id="the claim that kube-scheduler makes for an extended resource",
        ),
    ],
)
def test_quotas_of_claims(asking: Json, copies: int, objects: list[Json], expected: list[str]) -> None:
    there = [
        device_class(),
        resource_slice("n", [gpu_device(i) for i in range(8)]),
        claim_template("asked", request(2)),
    ]
    assert notes(asking, copies, *there, *objects, allocatable={}) == expected


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param([], said(CLAIMS, "0 of 0", REFUSED.format(1)), id="that the cluster does not have"),
        pytest.param([resource_claim("own")], [], id="that the cluster has"),
    ],
)
def test_a_claim_of_the_file_is_created_with_it(there: list[Json], expected: list[str]) -> None:
    """Once, however many pods share it."""
    objects = read_objects(inventory(node("n"), quota({CLAIMS: "0"}), *there))
    written = resource_claim("own")
    del written["metadata"]["uid"]
    claims = read_objects(inventory(written)).claims
    state = state_of(objects, "inventory.yaml", Configuration().resource_names(), claims=claims)
    decoded = msgspec.json.decode(json.dumps(claiming(claim="own")).encode(), type=kube.Pod)
    assert quota_notes([(decoded, 3)], state, given=claims) == expected
