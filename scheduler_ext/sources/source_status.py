"""The status of the source of an inventory: for probes and metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scheduler_ext.binding.binder import Binder
from scheduler_ext.core.gpu.readings import NodeReadings
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.node.pod_facts import FactsOfPods
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.wire.pod.pod_claims import ClaimLookup


@dataclass(frozen=True, slots=True)
class Check:
    """A condition for readiness; `note` describes a problem that does not fail it."""

    name: str
    passed: bool
    note: str | None = None

    @property
    def says(self) -> str:
        return self.note or ("ok" if self.passed else "failed")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the inventory may be out of date: `what` cannot be read, the reason, and for how long."""

    what: str
    text: str
    since_s: float


@dataclass(frozen=True, slots=True)
class WatchHealth:
    """The state of a watch of the API server: `connected` while its list is complete and the watch is
    answered; `silent_s` is the time since the last data."""

    name: str
    synced: bool
    connected: bool
    silent_s: float
    problem: str | None

    def note(self, settled: bool) -> str | None:
        """The problem in words; `settled` if nothing waits for this watch."""
        if self.problem is None:
            return None
        if settled and not self.synced:
            return f"not followed; apply the roles of this release: {self.problem}"
        if not self.synced:
            return f"not listed yet: {self.problem}"
        return f"lost for {self.silent_s:.0f} s, the last state stays in force: {self.problem}"


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """`age_s` is the time since the last data; `broken` while the present data is refused; `problems`
    are the reasons why the inventory may be out of date. `report_ages_s` and `unplaced` (pods with a
    share on an unknown GPU) are by node. `forecast_age_s` is the age of the demand forecast. `readings` is
    the activity of the GPUs, and `facts` are those about the pods that hold them."""

    checks: Sequence[Check]
    age_s: float
    broken: bool = False
    problems: Sequence[Problem] = ()
    watches: Sequence[WatchHealth] = ()
    report_ages_s: Mapping[str, float] = field(default_factory=dict)
    active: bool = True
    unplaced: Mapping[str, int] = field(default_factory=dict)
    forecast_age_s: float = 0.0
    readings: NodeReadings = field(default_factory=dict)
    facts: FactsOfPods = field(default_factory=dict)


class Watched(Protocol):
    """A source as metrics see it."""

    @property
    def snapshot(self) -> Snapshot | None: ...
    def status(self) -> SourceStatus: ...


class Source(Watched, Protocol):
    """The source of an extender's nodes."""

    @property
    def binder(self) -> Binder | None: ...

    def pending(self) -> Sequence[PendingPod]:
        """The pods that request GPUs and have no node yet."""

    def is_gone(self, uid: str) -> bool:
        """Whether a pod is known neither to wait for GPUs nor to hold any now."""

    def node_facts(self) -> Mapping[str, NodeFacts]:
        """The fields of each Node that kube-scheduler's own filters compare, without amounts."""

    @property
    def claims(self) -> ClaimLookup | None:
        """The ResourceClaims, where they are known."""
