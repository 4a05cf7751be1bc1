"""An extender over an inventory, its answers, and nodes of shares and of whole GPUs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.preemptor import Advice
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects
from tests.kube_objects import SHARE, Json, gpu, gpu_node, holder, inventory, names_body, node, pod

WHOLE = "nvidia.com/gpu"
ROOM_MIB = 73_728
_DEVICE = "devices.gpu.scheduler-ext.io/main"


def infos_of(*objects: Json) -> dict[str, NodeInfo]:
    """The nodes of these objects."""
    return dict(assemble(read_objects(inventory(*objects)), Configuration().resource_names()))


def extender_on(
    *objects: Json, config: Configuration | None = None, advice: Advice | None = None
) -> Extender:
    """The extender that knows these objects, with this advice."""
    extender = Extender(config or Configuration(), advice)
    tell(extender, *objects)
    return extender


def tell(extender: Extender, *objects: Json) -> None:
    """From now on these objects are all."""
    extender.replace_nodes(infos_of(*objects).values())


def until() -> float:
    """A deadline that no test meets."""
    return time.monotonic() + 60


def whole_node(name: str, *held_by: str | None) -> list[Json]:
    """A GPU for each entry, held by this pod or free."""
    devices = [
        gpu(i, f"GPU-{name}-{i}") | ({"holders": [holder(by)]} if by else {}) for i, by in enumerate(held_by)
    ]
    return [gpu_node(name, devices), node(name, {WHOLE: str(len(held_by))})]


def share_node(name: str, gpus: int) -> list[Json]:
    """GPUs of ROOM_MIB for shares each."""
    labels = {"gpu.scheduler-ext.io/sharing": "memory"}
    devices = [gpu(i, f"GPU-{name}-{i}") for i in range(gpus)]
    return [gpu_node(name, devices), node(name, {SHARE: str(ROOM_MIB * gpus)}, labels=labels)]


def on_gpu(name: str, where: str, priority: int = 0, **fields: Any) -> Json:
    """A pod that holds a whole GPU there."""
    return pod(name, {WHOLE: "1"}, on=where, priority=priority, **fields)


def on_share(name: str, mib: int, where: str, index: int, priority: int = 0, **fields: Any) -> Json:
    """A pod with a share of that GPU."""
    annotations = {_DEVICE: f"GPU-{where}-{index}"}
    return pod(name, {SHARE: str(mib)}, on=where, annotations=annotations, priority=priority, **fields)


def asks_shares(name: str, *mib: int, priority: int = 100) -> Json:
    """A pod with a container for each share."""
    asking = pod(name, priority=priority)
    asking["spec"]["containers"] = [
        {"name": f"c{i}", "resources": {"limits": {SHARE: str(each)}}} for i, each in enumerate(mib)
    ]
    return asking


def leaving(one: Json) -> Json:
    """The pod, being deleted."""
    return one | {"metadata": one["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}


def nominated(one: Json, where: str) -> Json:
    """The pod with a nomination to that node."""
    return one | {"status": one["status"] | {"nominatedNodeName": where}}


def uids(*names: str, violations: int = 0) -> Json:
    """Victims by uid."""
    return {"Pods": [{"UID": f"uid-{name}"} for name in names], "NumPDBViolations": violations}


def preempt_body(asking: Json, proposed: Json, *, whole_pods: bool = False) -> bytes:
    """The body of preempt."""
    forms = ("NodeNameToMetaVictims", "NodeNameToVictims")
    sent, absent = reversed(forms) if whole_pods else forms
    return json.dumps({"Pod": asking, sent: proposed, absent: None}).encode()


def preempt(
    extender: Extender, asking: Json, proposed: Json, *, whole_pods: bool = False
) -> dict[str, list[str]]:
    """The victims by node, by name; the node's violations come last if there are any."""
    body = preempt_body(asking, proposed, whole_pods=whole_pods)
    reply = json.loads(extender.preemptor.preempt(body, until()).body)
    return {
        name: [each["UID"].removeprefix("uid-") for each in victims["Pods"]]
        + ([f"{victims['NumPDBViolations']} violated"] if victims["NumPDBViolations"] else [])
        for name, victims in reply["NodeNameToMetaVictims"].items()
    }


def filtered(extender: Extender, asking: Json, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The nodes that pass, and the refused ones where preemption may help."""
    reply = json.loads(extender.filter(names_body(asking, names), until()).body)
    return reply["NodeNames"], sorted(reply["FailedNodes"])
