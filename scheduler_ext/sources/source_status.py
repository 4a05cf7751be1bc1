"""How an inventory's source fares: for probes and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scheduler_ext.binding.binder import Binder
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that has to be so before requests are taken; ``note`` says what is not well all the same."""

    name: str
    passed: bool
    note: str | None = None

    @property
    def says(self) -> str:
        """In a few words."""
        return self.note or ("ok" if self.passed else "failed")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why what is known may be out of date: ``what`` cannot be read, for which reason, since how long."""

    what: str
    text: str
    since_s: float


class Watch(Protocol):
    """How one watch of the API server fares."""

    @property
    def name(self) -> str: ...
    @property
    def connected(self) -> bool: ...
    @property
    def silent_s(self) -> float: ...
    @property
    def restarts(self) -> Mapping[str, int]: ...


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """``age_s`` is since the source was last heard of; ``broken`` while what it says now is refused;
    ``problems`` are why what is known may be out of date, none while all of it is followed.

    ``report_ages_s``, ``reports_refused`` and ``unplaced`` (pods with a share on a GPU that nobody knows) are
    by node. ``forecast_age_s`` is since the forecast of the pods to come was made. ``events`` counts Events
    that were "written", "dropped" (too many at once), "refused" by the API server, or that "failed";
    ``nudge_failures`` tries to annotate a Node that were "refused" or "failed", and nudges that were
    "dropped".
    """

    checks: Sequence[Check]
    age_s: float
    broken: bool = False
    problems: Sequence[Problem] = ()
    watches: Sequence[Watch] = ()
    report_ages_s: Mapping[str, float] = field(default_factory=dict)
    reports_refused: Mapping[str, int] = field(default_factory=dict)
    nudges: int = 0
    nudge_failures: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)
    active: bool = True
    unplaced: Mapping[str, int] = field(default_factory=dict)
    advertised: int = 0
    advertise_failures: int = 0
    forecast_age_s: float = 0.0


class Watched(Protocol):
    """Whose state metrics tell."""

    @property
    def snapshot(self) -> Snapshot | None: ...
    @property
    def binder(self) -> Binder | None: ...

    def status(self) -> SourceStatus: ...


class Source(Watched, Protocol):
    """Where the nodes of an extender come from."""

    def pending(self) -> Sequence[PendingPod]:
        """The pods that ask GPUs and have no node yet."""
        ...

    def is_gone(self, uid: str) -> bool:
        """Whether a pod that was asked about is known neither to wait for GPUs nor to hold any now."""
        ...

    def node_facts(self) -> Mapping[str, NodeFacts]:
        """What kube-scheduler's own filters compare of each Node that is known, without amounts."""
        ...
