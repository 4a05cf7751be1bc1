"""Capacity with plain values, and random clusters for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.whatif.capacity import capacity
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects, read_pods
from tests.kube_objects import ANNOTATION, SHARE, Json, gpu, gpu_node, holder, inventory, node, pod

WHOLE = "nvidia.com/gpu"
ONE_G = "nvidia.com/mig-1g.10gb"
_DEVICE = "devices.gpu.scheduler-ext.io/"


def state_of(*objects: Json) -> ClusterState:
    """The cluster of these objects."""
    read = read_objects(inventory(*objects))
    return ClusterState("inventory.yaml", read, assemble(read, Configuration().resource_names()))


def read(*pods: Json) -> list[kube.Pod]:
    """Pods, decoded."""
    return read_pods(inventory(*pods))


def counted(asking: Json, *objects: Json) -> Json:
    """How many more of a pod fit."""
    answer = capacity(read(asking)[0], state_of(*objects), Configuration())
    json.dumps(answer)
    return answer


def counts(answer: Json) -> dict[str, int | None]:
    """The count of each node; None is unlimited."""
    return {entry["node"]: entry["count"] for entry in answer["nodes"]}


def asks(name: str, *containers: Json, **spec: Any) -> Json:
    """A pod with these limits by container; `annotations` are wishes."""
    wishes = {ANNOTATION + key: value for key, value in spec.pop("annotations", {}).items()}
    asking = pod(name, annotations=wishes, **spec)
    asking["spec"]["containers"] = [
        {"name": f"c{i}", "resources": {"limits": limits}} for i, limits in enumerate(containers)
    ]
    return asking


def numbered(asking: Json, number: int) -> Json:
    """A copy of a pod, as a pod of its own."""
    return asking | {"metadata": asking["metadata"] | {"name": f"copy-{number}", "uid": f"uid-copy-{number}"}}


@st.composite
def asking_pods(draw: DrawFn, name: str = "asker") -> Json:
    """A pod with whole GPUs, a MIG instance, shares, several of them or none, and CPU."""
    cpu = {"cpu": draw(st.sampled_from(("100m", "2", "9")))}
    share = st.sampled_from(("1000", "7000", "8192", "30000", "60000")).map(lambda mib: {SHARE: mib})
    whole = st.sampled_from(("1", "1", "2", "3")).map(lambda count: {WHOLE: count})
    containers = draw(
        st.one_of(
            st.tuples(whole),
            st.tuples(share),
            st.tuples(share, share),
            st.tuples(share, whole),
            st.just(({ONE_G: "1"},)),
            st.just(({},)),
        )
    )
    spec: Json = {"priority": draw(st.sampled_from((0, 0, 5, 1000)))}
    if draw(st.booleans()):
        spec["annotations"] = draw(
            st.sampled_from(({"model": "A100-80GB"}, {"strategy": "spread"}, {"min-free-memory": "20000Mi"}))
        )
    return asks(name, cpu | containers[0], *containers[1:], **spec)


@st.composite
def _holding(draw: DrawFn, name: str, where: str, uuids: Sequence[str]) -> Json:
    """A pod on a node: on a reported GPU, on an unreported one, or without GPU."""
    kind = draw(st.sampled_from(("share", "share", "whole", "none")))
    limits = {"share": {SHARE: "5000"}, "whole": {WHOLE: "1"}, "none": {}}[kind]
    told = {_DEVICE + "main": draw(st.sampled_from(uuids))} if kind == "share" else {}
    priority = draw(st.sampled_from((0, -3, 2, 100)))
    return pod(name, limits | {"cpu": "3"}, on=where, annotations=told, priority=priority)


@st.composite
def nodes(draw: DrawFn, name: str) -> list[Json]:
    """A node with GPUs, the pods on it, and nearly always a Node object."""
    devices = []
    for i in range(draw(st.sampled_from((1, 2, 4)))):
        more: Json = {}
        kind = draw(st.sampled_from(("plain", "plain", "plain", "plain", "sick", "held", "mig", "used")))
        if kind == "sick":
            more = {"health": {"state": "Unhealthy", "reason": "XID 79"}}
        elif kind == "held":
            more = {"holders": [holder("stranger")]}
        elif kind == "mig":
            instances = [{"uuid": f"MIG-{name}-{i}", "profile": "1g.10gb", "start": 0, "size": 1}]
            more = {"mig": {"enabled": True, "instances": instances}}
        elif kind == "used":
            more = {"memory": {"totalMiB": 40960, "usedMiB": 11000}}
        total = draw(st.sampled_from((81920, 40960)))
        model = "A100-80GB" if total == 81920 else "A100-40GB"
        devices.append(gpu(i, f"GPU-{name}-{i}", total=total, model=model, **more))
    uuids = [device["uuid"] for device in devices]
    holding = draw(st.lists(st.sampled_from(("x", "y", "z")), max_size=3, unique=True))
    objects = [gpu_node(name, devices), *(draw(_holding(f"{each}-{name}", name, uuids)) for each in holding)]
    if draw(st.sampled_from((True, True, True, False))):
        room = {WHOLE: str(len(devices)), SHARE: "200000", ONE_G: "4"}
        room |= {"cpu": draw(st.sampled_from(("16", "64"))), "pods": draw(st.sampled_from(("4", "12")))}
        objects.append(node(name, room, unschedulable=draw(st.sampled_from((False, False, False, True)))))
    return objects


@st.composite
def clusters(draw: DrawFn, most: int = 3) -> list[Json]:
    """Up to so many nodes with their pods."""
    names = ("b", "a", "c")[: draw(st.integers(1, most))]
    return [each for name in names for each in draw(nodes(name))]
