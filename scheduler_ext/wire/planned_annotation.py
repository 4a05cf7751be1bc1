"""Annotations that say where a planner wants a pod. One has the node and the time until which the pod keeps
its place there, as JSON. With it, every extender tells a planner's nomination from one that another component
made, and a planner that has died keeps nothing after that time."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from scheduler_ext.core.node.node import PlannedNode
from scheduler_ext.wire import kube
from scheduler_ext.wire.kube import strings
from scheduler_ext.wire.times import micro_time, seconds

PLANNED_ANNOTATION = "gpu.scheduler-ext.io/planned"
"""JSON with `node` and `until`: the node that the planner has nominated the pod to
(docs/features/gangs/nominate.md), and the time until which the place is kept."""
ONLY_NODE = "gpu.scheduler-ext.io/gang-node"
"""On members of a gang with a required topology: the node that alone takes the pod; empty: none for now."""
# No nomination of a planner keeps its place for longer, whatever is written on the pod.
LONGEST_PLAN_S = 3600.0


class _PlannedValue(Struct):
    node: str
    until: str


_decoder = msgspec.json.Decoder(_PlannedValue)


def read_planned(annotations: Mapping[str, str]) -> PlannedNode | None:
    """The planned place of a pod; None without one, and for a text that cannot be read."""
    text = annotations.get(PLANNED_ANNOTATION)
    if text is None:
        return None
    try:
        written = _decoder.decode(text.encode())
    except msgspec.MsgspecError:
        return None
    until = seconds(written.until)
    return PlannedNode(written.node, until) if until is not None else None


def planned_text(place: PlannedNode) -> str:
    """The value of the annotation for a planned place."""
    return msgspec.json.encode(_PlannedValue(place.node, micro_time(place.until))).decode()


# Occurs in the bytes of few pods, so that few are decoded.
_ONLY_NODE_BYTES = f'"{ONLY_NODE}"'.encode()


def may_have_only_node(raw_pod: bytes) -> bool:
    """Whether a pod has to be decoded to know its only node."""
    return _ONLY_NODE_BYTES in raw_pod


def only_node(pod: kube.Pod) -> str | None:
    """The node that alone takes a member of a gang, "" for none; None: any."""
    return strings((pod.metadata or kube.ObjectMeta()).annotations).get(ONLY_NODE)
