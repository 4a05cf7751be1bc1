"""What a planner writes on a pod that it nominates: the place, and, in the status of a gang's member, a
condition with the deadline of the gang and what the next planner has to know of it. Who may write pods, but
not their status, cannot forge the condition."""

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_ext.core.node.node import PlannedNode
from scheduler_ext.features.gangs.planning.gang_failures import Remembered
from scheduler_ext.wire import kube
from scheduler_ext.wire.planned_annotation import PLANNED_ANNOTATION, planned_text
from scheduler_ext.wire.times import seconds, time_text

START_BY = "gpu.scheduler-ext.io/gang-start-by"
"""The condition of a member whose gang was started (status True): its message begins with the time by which
the whole gang must have started. It goes when all members run. The message of one member also has, as JSON,
what a planner remembers of the gang (gang_failures.Remembered); the status is False while the gang waits."""
FIELD_MANAGER = "scheduler-ext-planner"

NO_NOTES: Mapping[str, str] = {}

_remembered = msgspec.json.Decoder(Remembered)


def start_by(pod: kube.Pod) -> float | None:
    """The time by which the gang of a pod must have started, in seconds; None if none was written."""
    time = _message(pod).partition("{")[0].strip()
    return seconds(time) if time else None


def remembered(pod: kube.Pod) -> Remembered | None:
    """What a planner remembered of the gang of a pod; None for a text that cannot be read."""
    _, brace, text = _message(pod).partition("{")
    try:
        return _remembered.decode(brace + text) if brace else None
    except msgspec.MsgspecError:
        return None


def _message(pod: kube.Pod) -> str:
    conditions = (pod.status.conditions or ()) if pod.status is not None else ()
    return next((each.message or "" for each in conditions if each.type == START_BY), "")


def nomination(
    namespace: str,
    name: str,
    uid: str,
    place: PlannedNode | None,
    notes: Mapping[str, str] = NO_NOTES,
    deadline: float | None = None,
    remembered: Remembered | None = None,
) -> bytes:
    """The body of a server-side apply to a pod's status that nominates it to this place; None: that
    withdraws what this field manager has written. `notes` are annotations that the pod has from now on, and
    no others of this field manager, `deadline` the time by which its gang must have started, and `remembered`
    what is known of it. The uid makes sure that no later pod of that name is meant."""
    annotations = dict(notes)
    status: dict[str, Any] = {}
    if place is not None:
        annotations[PLANNED_ANNOTATION] = planned_text(place)
        status["nominatedNodeName"] = place.node
    message = [] if deadline is None else [time_text(deadline)]
    message += [] if remembered is None else [msgspec.json.encode(remembered).decode()]
    if message:
        standing, reason = ("False", "Waiting") if deadline is None else ("True", "Started")
        condition = {"type": START_BY, "status": standing, "reason": reason, "message": " ".join(message)}
        status["conditions"] = [condition]
    metadata = {"namespace": namespace, "name": name, "uid": uid, "annotations": annotations}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})
