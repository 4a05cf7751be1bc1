"""Nodes of every condition, and names that mean harm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.wire.objects import assemble, read_objects
from tests.core.reported import NAMES
from tests.kube_objects import GFD_H100, Json, gpu, gpu_node, holder, inventory, node

WHOLE = "nvidia.com/gpu"
SICK = {"state": "Unhealthy", "reason": "XID 79"}
MIG = {
    "enabled": True,
    "instances": [
        {"uuid": "MIG-0", "profile": "1g.10gb", "start": 0, "size": 1},
        {"uuid": "MIG-4", "profile": "3g.40gb", "start": 4, "size": 4, "holder": holder("m", "dev")},
    ],
}
SCRIPT = "<script>document.title='harm'</script><img src=x onerror=document.title='harm'>"
RIGHT_TO_LEFT = "a\u202egpj.exe\u2066\u200b"
LONG = "n" * 253
MEMORY = {"totalMiB": 81920, "reservedMiB": 620, "usedMiB": 40960, "unaccountedMiB": 1024}


def infos() -> list[NodeInfo]:
    objects: list[Json] = [
        gpu_node("busy", [gpu(0, memory=MEMORY, holders=[holder("train", "research")]), gpu(1)]),
        node("busy", {WHOLE: "2"}, labels={"karpenter.sh/nodepool": "train"}),
        gpu_node("sick", [gpu(0, "GPU-s0", health=SICK), gpu(1, "GPU-s1", model="T4", total=15360)]),
        gpu_node("sliced", [gpu(0, "GPU-m0", mig=MIG)]),
        gpu_node("old", [gpu(0, "GPU-o0")]),
        gpu_node("lost", [gpu(0, "GPU-l0")]),
        node("labelled", {WHOLE: "8"}, labels=GFD_H100),
        *(gpu_node(name, [gpu(0, f"GPU-{i}")]) for i, name in enumerate((SCRIPT, RIGHT_TO_LEFT, LONG), 10)),
    ]
    found = assemble(read_objects(inventory(*objects)), NAMES)
    found["old"] = replace(found["old"], freshness="Stale")
    found["lost"] = replace(found["lost"], freshness="Missing")
    return list(found.values())


def line(**fields: Any) -> dict[str, Any]:
    plain = {
        "namespace": "research",
        "name": "waits",
        "uid": "w",
        "state": "Waiting",
        "priority": 0,
        "asks": "8 × nvidia.com/gpu",
    }
    unknown: dict[str, Any] = {
        "refusals": {},
        "nearest": None,
        "commonest": None,
        "fits": None,
        "since": None,
        "nominated": None,
    }
    return plain | {"reason": "not looked at yet", "filters": 0} | unknown | fields


WAITING = [
    line(
        nearest="busy lacks 6 GPUs",
        reason="Insufficient nvidia.com/gpu per device",
        commonest={"reason": "node(s) had GPUs too small", "nodes": 7, "of": 9},
    ),
    line(
        name="garbled",
        asks="something that cannot be read",
        reason="pod's GPU request is invalid",
        nearest="container 'main': quantity '8Gi' is absurd",
        since="2026-11-01T01:00:00.000000Z",
    ),
    line(namespace=SCRIPT, name=RIGHT_TO_LEFT, asks=SCRIPT, reason=SCRIPT),
]
