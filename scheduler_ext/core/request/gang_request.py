"""What a gang requests, as its members state it: pods that start together or not at all."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

# The scheduling gate that keeps a member from kube-scheduler until all members have places.
GATE = "gpu.scheduler-ext.io/gang"
# The value of a topology annotation that means the node pool, whose label differs between platforms.
NODE_POOL = "node-pool"


class OnDeadline(Enum):
    """What happens to a gang that runs in part when another member has not started in time."""

    EVICT = "evict"
    HOLD = "hold"


class GangKey(NamedTuple):
    """A gang; `source` is the kind of object or annotation that its name comes from."""

    namespace: str
    source: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class GangRequest:
    """What a member says about its gang. A gang starts once `size` of its members have places.
    `required_topology` and `preferred_topology` are node label keys (or NODE_POOL): the nodes of all members
    have one value. `deadline_s` is the time from the end of the gates to the start of the last member; None:
    as configured, and `on_deadline` alike."""

    key: GangKey
    size: int
    required_topology: str | None = None
    preferred_topology: str | None = None
    deadline_s: float | None = None
    on_deadline: OnDeadline | None = None


@dataclass(frozen=True, slots=True)
class InvalidGang:
    """A pod whose gang cannot be read; the message names the field and the fix."""

    message: str
