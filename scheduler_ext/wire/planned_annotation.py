"""What a planner writes on a pod that it has nominated. An annotation has the node and the time until which
the pod keeps its place there, as JSON. With it, every extender tells such a nomination from one that another
component made, and a planner that has died keeps nothing after that time. A condition in the status of a
gang's member has the deadline of the gang: who may write pods, but not their status, cannot forge it."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from scheduler_ext.core.node.node import PlannedPlace
from scheduler_ext.wire import kube
from scheduler_ext.wire.times import micro_time, seconds, time_text

PLANNED_ANNOTATION = "gpu.scheduler-ext.io/planned"
"""JSON with `node` and `until`: the node that the planner has nominated the pod to
(docs/tasks/plan-ahead.md), and the time until which the place is kept."""
START_BY = "gpu.scheduler-ext.io/gang-start-by"
"""The condition of a member whose gang was started: its message is the time by which the whole gang must have
started. It goes when all members run."""
FIELD_MANAGER = "scheduler-ext-planner"

NO_NOTES: Mapping[str, str] = {}


class _Written(Struct):
    node: str
    until: str


_decoder = msgspec.json.Decoder(_Written)


def read_planned(annotations: Mapping[str, str]) -> PlannedPlace | None:
    """The planned place of a pod; None without one, and for a text that cannot be read."""
    text = annotations.get(PLANNED_ANNOTATION)
    if text is None:
        return None
    try:
        written = _decoder.decode(text.encode())
    except msgspec.MsgspecError:
        return None
    until = seconds(written.until)
    return PlannedPlace(written.node, until) if until is not None else None


def start_by(pod: kube.Pod) -> float | None:
    """The time by which the gang of a pod must have started, in seconds; None if none was written."""
    conditions = (pod.status.conditions or ()) if pod.status is not None else ()
    return next((seconds(each.message) for each in conditions if each.type == START_BY), None)


def nomination(
    namespace: str,
    name: str,
    uid: str,
    place: PlannedPlace | None,
    notes: Mapping[str, str] = NO_NOTES,
    deadline: float | None = None,
) -> bytes:
    """The body of a server-side apply to a pod's status that nominates it to this place; None: that
    withdraws what this field manager has written. `notes` are annotations that the pod has from now on, and
    no others of this field manager, and `deadline` the time by which its gang must have started. The uid
    makes sure that no later pod of that name is meant."""
    annotations = dict(notes)
    status: dict[str, Any] = {}
    if place is not None:
        text = msgspec.json.encode(_Written(place.node, micro_time(place.until))).decode()
        annotations[PLANNED_ANNOTATION] = text
        status["nominatedNodeName"] = place.node
    if deadline is not None:
        condition = {"type": START_BY, "status": "True", "reason": "Started", "message": time_text(deadline)}
        status["conditions"] = [condition]
    metadata = {"namespace": namespace, "name": name, "uid": uid, "annotations": annotations}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})
