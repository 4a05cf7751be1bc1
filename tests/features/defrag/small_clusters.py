"""Small random clusters with a pod that waits, as plain values and as Kubernetes objects.

Some nodes give whole GPUs, some memory shares, some MIG instances; models differ. Sizes come from short
lists, so that a pod often fits only after a move.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.features.defrag.planning import MIG_HALF, WHOLE, mig_node, share_node, whole_node
from tests.kube_objects import ANNOTATION, SHARE, Json, budget, owned, pod

TOTAL_MIB = 81920
MODELS = ("A100-80GB", "H100-80GB")
KINDS = ("whole", "whole", "share", "mig")
SIZES = {"whole": (1, 1, 2, 4), "share": (20480, 20480, 40960, 61440), "mig": (1, 1, 2)}
GROUPS = ("web", "train")


@dataclass(frozen=True, slots=True)
class SmallPod:
    """A pod: `size` in GPUs, instances or MiB; `model` is the only one it accepts, if any. Pods of a `group`
    have one budget. `device` is the GPU of a share."""

    name: str
    kind: str
    size: int
    model: str = ""
    group: str = ""
    movable: bool = True
    node: str = ""
    device: int = -1


@dataclass(frozen=True, slots=True)
class SmallNode:
    """A node of `gpus` equal GPUs that are given away in one kind; two halves of each if by MIG."""

    name: str
    kind: str
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class SmallCluster:
    """Nodes, the pods on them, the pod that waits, and the disruptions that each group allows."""

    nodes: tuple[SmallNode, ...]
    pods: tuple[SmallPod, ...]
    waiting: SmallPod
    allowed: tuple[tuple[str, int], ...]


def accepts(there: SmallNode, each: SmallPod) -> bool:
    """Whether a node has GPUs of the pod's kind and model."""
    return there.kind == each.kind and each.model in ("", there.model)


def rooms(there: SmallNode, pods: tuple[SmallPod, ...]) -> list[int]:
    """What is free: of the node in all, or of each GPU for shares."""
    here = [each for each in pods if each.node == there.name]
    if there.kind == "share":
        return [
            TOTAL_MIB - sum(each.size for each in here if each.device == device)
            for device in range(there.gpus)
        ]
    return [there.gpus * (2 if there.kind == "mig" else 1) - sum(each.size for each in here)]


def small_cluster(seed: int) -> SmallCluster:
    """A cluster that is nearly full, with one pod more."""
    rng = random.Random(seed)
    kind = rng.choice(KINDS)
    nodes = tuple(
        SmallNode(
            f"n{i}", kind if rng.random() < 0.8 else rng.choice(KINDS), rng.choice((1, 2, 4, 4)), _model(rng)
        )
        for i in range(rng.randint(2, 5))
    )
    allowed = tuple((group, rng.choice((0, 1, 2, 9))) for group in GROUPS)
    pods: tuple[SmallPod, ...] = ()
    for i in range(rng.randint(6, 16)):
        asked = _pod(rng, f"p{i}", rng.choice(nodes).kind)
        places = [
            replace(asked, node=there.name, device=device if there.kind == "share" else -1)
            for there in nodes
            if accepts(there, asked)
            for device, room in enumerate(rooms(there, pods))
            if room >= asked.size
        ]
        if places:
            pods = (*pods, rng.choice(places))
    waiting = replace(_pod(rng, "w", rng.choice(nodes).kind), group="")
    if waiting.kind != "share":
        # As large as a node can take, so that it rarely fits as it is.
        most = max(there.gpus for there in nodes if there.kind == waiting.kind)
        waiting = replace(waiting, size=rng.randint(1, most * (2 if waiting.kind == "mig" else 1)))
    # A pod that is deleted leaves a hole.
    pods = tuple(each for each in pods if rng.random() < 0.75)
    return SmallCluster(nodes, pods, waiting, allowed)


def _model(rng: random.Random) -> str:
    return MODELS[0] if rng.random() < 0.7 else MODELS[1]


def _pod(rng: random.Random, name: str, kind: str) -> SmallPod:
    model = rng.choice(("", "", "", *MODELS))
    group = rng.choice(("", "", *GROUPS))
    return SmallPod(name, kind, rng.choice(SIZES[kind]), model, group, movable=rng.random() < 0.85)


def objects(cluster: SmallCluster) -> list[Json]:
    """The cluster as an inventory, its pod included, which waits."""
    found: list[Json] = []
    for there in cluster.nodes:
        here = [each for each in cluster.pods if each.node == there.name]
        found += _node(there, here)
        found += [pod_object(each) for each in here]
    return [
        *found,
        pod_object(cluster.waiting),
        *(budget(group, allowed, group=group) for group, allowed in cluster.allowed),
    ]


def _node(there: SmallNode, here: list[SmallPod]) -> list[Json]:
    if there.kind == "share":
        return share_node(there.name, there.gpus, there.model)
    holders = [each.name for each in here for _ in range(each.size)]
    if there.kind == "mig":
        return mig_node(there.name, *holders, gpus=there.gpus, model=there.model)
    return whole_node(there.name, there.gpus, *holders, model=there.model)


def pod_object(each: SmallPod) -> Json:
    """The pod as an object; one that may not be moved has no controller."""
    resource = {"whole": WHOLE, "mig": MIG_HALF, "share": SHARE}[each.kind]
    annotations = {f"{ANNOTATION}model": each.model} if each.model else {}
    if each.device >= 0:
        annotations[f"devices.{ANNOTATION}main"] = f"GPU-{each.node}-{each.device}"
    made = pod(each.name, {resource: str(each.size)}, on=each.node or None, annotations=annotations)
    made["metadata"]["labels"] = {"group": each.group, "name": each.name}
    if each.movable:
        owned(made, name=each.name)
    return made
