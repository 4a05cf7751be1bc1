"""Why a filter refuses a node: the reason, and the nearest miss with its kind, its numbers and its words.
Reasons are constants without numbers or names. kube-scheduler groups nodes by identical text, and a text that
varies between attempts wakes the pod again (measured: over a thousand filter calls in ten seconds for one
pod)."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from scheduler_ext.core.node.node import Node

NAMED = 8


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node is refused: kube-scheduler's text, its meaning, and the remedy."""

    text: str
    meaning: str
    remedy: str


INVALID_REQUEST = Reason(
    "pod's GPU request is invalid",
    "A quantity or annotation of the pod cannot be read, is absurd, or contradicts another.",
    "Run `scheduler-ext explain -f pod.yaml`: it names the field and the fix.",
)

OTHER_PLACE = Reason(
    "node(s) were not the place of the pod's gang",
    "The pod's gang has to be in one topology domain, and its place there is another node, or none for now.",
    "Wait: the extender keeps a place for each member, or plans the gang again. `scheduler-ext why` says "
    "what the gang waits for.",
)

KEPT_FOR_GANG = Reason(
    "node(s) had GPUs that are kept for a gang",
    "The pod would fit, but the GPUs are kept for a gang that comes before it by priority and age.",
    "Wait for the gang to start; `scheduler-ext explain` names it. A pod of a higher priority may use the "
    "GPUs, and so may one whose gpu.scheduler-ext.io/max-duration ends before the gang can start.",
)


class MissKind(Enum):
    """The end of a refusal; explanations prefer the node whose refusal ends most easily."""

    AMOUNT = "other pods release it, or a larger node"
    PASSING = "time, or an operator; never a change of the pod"
    UNHEALTHY = "a repair"
    MISMATCH = "another node"
    SIZE = "another node; the one that misses by least is nearest"


@dataclass(frozen=True, slots=True)
class NearestMiss:
    """The value that was closest to passing a filter on a node; `device` None: the node itself."""

    criterion: str
    device: str | None
    needed: str | int
    have: str | int | None
    unit: str


def where(node: Node, device: str | None) -> str:
    """The node and the GPU: "node-7 GPU 3"."""
    return node.info.name + device_of(node, device)


def device_of(node: Node, uuid: str | None) -> str:
    """The GPU by its index, with a space before it; empty if the report does not have it."""
    if uuid is None or node.info.report is None:
        return ""
    index = next((device.index for device in node.info.report.devices if device.uuid == uuid), None)
    return f" GPU {index}" if index is not None else ""


def plain_sentence(place: str, reason: str, miss: NearestMiss) -> str:
    """The reason and both values, for a miss without a better sentence."""
    values = [
        f"{word} {value}" for word, value in (("needs", miss.needed), ("has", miss.have)) if value is not None
    ]
    return f"{place}: {reason}" + (f" ({', '.join(values)})" if values else "")


def lacking_part(needed: str | int, have: str | int | None) -> float:
    """The missing part of a needed amount, 0 to 1; 1 for values that are no amounts."""
    if not isinstance(needed, int) or not isinstance(have, int):
        return 1.0
    return (needed - have) / max(needed, 1)


def few(names: Sequence[str]) -> str:
    """Names separated by commas, of many only the first ones."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ",".join(names[:NAMED]) + more
