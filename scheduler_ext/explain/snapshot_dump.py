"""The state of a running extender as one value: all that explanations elsewhere follow from."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler_ext.core.dra.known_claims import KnownClaims
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import BoundPod, NodeInfo, PendingPod
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.core.snapshot.name_index import NameIndex
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.extender.answer import Names
from scheduler_ext.extender.record import Offered, Record, Recorded
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.node_info import node_constraints
from scheduler_ext.wire.pod.pod_claims import ClaimLookup


@dataclass(frozen=True)
class Dump:
    """`workload` holds the expected classes of pods with their frequency, `unknown` the fraction of pods
    without a known class. `gone` are the uids of pods that are known to be deleted. `decisions` have no
    `offered`: `asked` has for each the index of its node names in `names` and one bit per name, None
    where kube-scheduler sent no request. Many decisions share a list of names. `claims` are those of the
    waiting pods."""

    generation: int
    at: float
    configuration: Configuration
    nodes: list[NodeInfo]
    workload: list[tuple[TaskClass, float]]
    unknown: float
    waiting: list[PendingPod]
    facts: list[NodeFacts]
    decisions: list[Recorded]
    names: list[list[str]]
    asked: list[tuple[int, bytes] | None]
    gone: frozenset[str]
    claims: KnownClaims = field(default_factory=KnownClaims)


@dataclass(frozen=True, slots=True)
class RecordedCluster:
    """A cluster at one moment, as the source of an Explainer (`ExplainedCluster`); `record` has the decisions
    until then, `gone` the uids of pods that were known to be deleted."""

    snapshot: Snapshot
    waiting: Sequence[PendingPod]
    facts: Mapping[str, NodeFacts]
    config: Configuration
    record: Record = field(default_factory=lambda: Record(0, 0))
    gone: frozenset[str] = frozenset()
    claims: ClaimLookup | None = None

    def pending(self) -> Sequence[PendingPod]:
        return self.waiting

    def is_gone(self, uid: str) -> bool:
        return uid in self.gone

    def node_facts(self) -> Mapping[str, NodeFacts]:
        return self.facts


def read_moment(state: ClusterState, config: Configuration) -> RecordedCluster:
    """A cluster that was read once, without any decisions."""
    facts = {name: node_constraints(node) for name, node in state.objects.nodes.items()}
    snapshot = state.snapshot_with_held(config.sizing())
    return RecordedCluster(snapshot, state.pending, facts, config, claims=state.claims)


def taken(
    snapshot: Snapshot,
    pending: Iterable[PendingPod],
    facts: Mapping[str, NodeFacts],
    record: Iterable[Recorded],
    config: Configuration,
    is_gone: Callable[[str], bool],
    claims: ClaimLookup | None = None,
) -> Dump:
    """The state of a running extender, except what no decision reads, such as the labels of pods."""
    workload = snapshot.forecast.workload
    decisions = list(record)
    pending = list(pending)
    # By identity: comparing thousands of names for each decision would take too long.
    names: dict[int, tuple[int, Names]] = {}
    asked: list[tuple[int, bytes] | None] = []
    for offered in (each.offered for each in decisions):
        if offered is None:
            asked.append(None)
        else:
            index, _ = names.setdefault(id(offered.names), (len(names), offered.names))
            asked.append((index, offered.bits))
    return Dump(
        generation=snapshot.generation,
        at=time.time(),
        configuration=config,
        nodes=[
            replace(
                info,
                pods=_without_labels(info.pods),
                nominated=_without_labels(info.nominated),
                planned=_without_labels(info.planned),
            )
            for info in (node.info for node in snapshot.nodes.values())
        ],
        workload=list(workload.parts.items()),
        unknown=workload.unknown,
        waiting=[replace(each, pod=replace(each.pod, labels={})) for each in pending],
        facts=list(facts.values()),
        decisions=[replace(each, offered=None) for each in decisions],
        names=[list(each) for _, each in names.values()],
        asked=asked,
        gone=frozenset(each.uid for each in decisions if is_gone(each.uid)),
        claims=_claims_of(pending, claims),
    )


def revived(dump: Dump) -> RecordedCluster:
    """A dump, ready for questions."""
    config = dump.configuration
    sizing = config.sizing()
    nodes = {info.name: sizing.resolved(info) for info in dump.nodes}
    forecast = Forecast(Workload(dict(dump.workload), dump.unknown), ())
    snapshot = build_snapshot(nodes, dump.generation, forecast=forecast)
    names = [NameIndex(each) for each in dump.names]
    record = Record(max(1, len(dump.decisions)), 2**62)
    record.restore(
        replace(each, offered=Offered(names[asked[0]], asked[1], asked[1]) if asked is not None else None)
        for each, asked in zip(dump.decisions, dump.asked, strict=True)
    )
    facts = {each.name: each for each in dump.facts}
    return RecordedCluster(snapshot, dump.waiting, facts, config, record, dump.gone, dump.claims)


def _claims_of(pending: Iterable[PendingPod], claims: ClaimLookup | None) -> KnownClaims:
    """The requests of these pods' claims."""
    if claims is None:
        return KnownClaims()
    keys = [(each.pod.namespace, name) for each in pending for name in each.claims]
    found = {f"{namespace}/{name}": claims.claim_request(namespace, (name,)) for namespace, name in keys}
    # No claim has this name.
    any_gpu = claims.claim_request("", ("",)).units
    resources = {ask.resource for each in pending for ask in each.pod.request.units}
    problems = {name: problem for name in sorted(resources) if (problem := claims.problem(name))}
    return KnownClaims(found, any_gpu, problems)


def _without_labels(pods: Iterable[BoundPod]) -> tuple[BoundPod, ...]:
    return tuple(replace(pod, labels={}) for pod in pods)
