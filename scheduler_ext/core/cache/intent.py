"""Intents: Bindings that an extender is about to post, written down where all extenders read them."""

from dataclasses import dataclass, field

from scheduler_ext.core.node.node import BoundPod

# A node runs some hundred pods; fewer Bindings than this are in flight to one node at any time.
MAX_INTENTS = 256


@dataclass(frozen=True, slots=True)
class Intent:
    """One Binding: `pod` with only the shares and units that it will hold, the one version of the pod at
    which the Binding can succeed, and the `extender` that posts it. `reads` is how often that extender
    had read the node's reservation when it decided; it is not written."""

    pod: BoundPod
    resource_version: str
    extender: str
    reads: int = field(default=0, compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the intent: a second Binding of a pod names another version of the pod."""
        return self.pod.uid, self.resource_version

    @property
    def uid(self) -> str:
        return self.pod.uid


@dataclass(frozen=True, slots=True)
class Reservation:
    """All intents of one node at one version; `resource_version` is None before the object is created,
    `node_uid` where the owner is unknown. `stamp` makes each write differ from the last: the API server
    gives an unchanged object no new version, and such a write fences nothing."""

    node: str
    node_uid: str | None = None
    resource_version: str | None = None
    intents: tuple[Intent, ...] = ()
    stamp: str = ""
