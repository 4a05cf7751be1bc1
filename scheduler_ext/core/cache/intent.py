"""Bindings that were about to be posted, as all extenders read them: the fence between two of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler_ext.core.node.node import BoundPod

# A node runs some hundred pods; so many Bindings are never on their way to one at a time.
MAX_INTENTS = 256


@dataclass(frozen=True, slots=True)
class Intent:
    """One Binding: ``pod`` as it will hold its shares and units, and nothing else, and the version of the pod
    at which alone the Binding can succeed; ``extender`` is who posts it.

    ``reads`` is how often that extender had read what others wrote of the node when it decided; nobody else
    is told.
    """

    pod: BoundPod
    resource_version: str
    extender: str
    reads: int = field(default=0, compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """What tells one from another: a second Binding of a pod is of another version of it."""
        return self.pod.uid, self.resource_version

    @property
    def uid(self) -> str:
        """The pod's."""
        return self.pod.uid

    @property
    def namespace(self) -> str:
        """The pod's."""
        return self.pod.namespace

    @property
    def name(self) -> str:
        """The pod's."""
        return self.pod.name


@dataclass(frozen=True, slots=True)
class Reservation:
    """All intents of one node at one version; ``resource_version`` is None before it is created.

    ``node_uid`` is the Node that it is of, with which it goes; None where nobody wrote it down. ``stamp``
    makes each write another one: an object that does not change gets no new version, and keeps nobody out.
    """

    node: str
    node_uid: str | None = None
    resource_version: str | None = None
    intents: tuple[Intent, ...] = ()
    stamp: str = ""
