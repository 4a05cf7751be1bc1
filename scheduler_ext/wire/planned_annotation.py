"""The annotation of a pod that a planner has nominated: JSON with the node and the time until which the pod
keeps its place there. With it, every extender tells such a nomination from one that another component made,
and a planner that has died keeps nothing after that time."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from scheduler_ext.core.node.node import PlannedPlace
from scheduler_ext.wire.times import micro_time, seconds

PLANNED_ANNOTATION = "gpu.scheduler-ext.io/planned"
"""JSON with `node` and `until`: the node that the planner has nominated the pod to
(docs/tasks/plan-ahead.md), and the time until which the place is kept."""
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


def nomination(
    namespace: str, name: str, uid: str, place: PlannedPlace | None, notes: Mapping[str, str] = NO_NOTES
) -> bytes:
    """The body of a server-side apply to a pod's status that nominates it to this place; None: that
    withdraws what this field manager has written. `notes` are annotations that the pod has from now on, and
    no others of this field manager. The uid makes sure that no later pod of that name is meant."""
    annotations = dict(notes)
    status: dict[str, str] = {}
    if place is not None:
        text = msgspec.json.encode(_Written(place.node, micro_time(place.until))).decode()
        annotations[PLANNED_ANNOTATION] = text
        status["nominatedNodeName"] = place.node
    metadata = {"namespace": namespace, "name": name, "uid": uid, "annotations": annotations}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})
