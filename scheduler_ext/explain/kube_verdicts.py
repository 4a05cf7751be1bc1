"""The verdicts of kube-scheduler's own filters on the nodes of a decision, as far as they are known."""

from collections.abc import Mapping

from scheduler_ext.core.cycle.cycle import Decision, short_by_count
from scheduler_ext.core.intree import InTreeRejection, NodeFacts, PodNeeds, intree_rejection
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.explain import KubeView
from scheduler_ext.explain.intree_nodes import CPU, preferences_of, with_cpu
from scheduler_ext.extender.record import Recorded

NOT_OFFERED = "node(s) that kube-scheduler did not pass on to the extender"
_NOT_OFFERED = InTreeRejection("NotOffered", NOT_OFFERED)


def kube_verdicts(
    needs: PodNeeds,
    all_facts: Mapping[str, NodeFacts],
    decision: Decision,
    request: GpuRequest,
    record: Recorded | None,
) -> KubeView:
    """The verdicts as far as they can be computed here: everything about the node itself, and CPU; and from
    the last request the nodes that they removed. A node that the extender refuses anyway has the extender's
    reason, which is known, in place of no question. `all_facts` are the nodes as those filters see them."""
    snapshot = decision.snapshot
    ignored = frozenset({*needs.requests, "pods"}) - {CPU}
    facts = {
        name: with_cpu(each, snapshot.nodes[name].info)
        for name, each in all_facts.items()
        if name in snapshot.nodes
    }
    judged = ((name, intree_rejection(needs, each, ignore_resources=ignored)) for name, each in facts.items())
    refused = {name: rejection for name, rejection in judged if rejection is not None}
    unexplained = {name for name in _not_offered(record, snapshot) if name not in refused}
    would_do = {name for name in unexplained if decision.fits[snapshot.state_at(name)]}
    short = short_by_count(request, snapshot)
    return KubeView(
        refused | dict.fromkeys(sorted(would_do), _NOT_OFFERED),
        facts,
        preferences_of(needs, facts),
        frozenset(name for name in unexplained - would_do if not short[snapshot.state_at(name)]),
        ignored,
    )


def _not_offered(record: Recorded | None, snapshot: Snapshot) -> list[str]:
    """The nodes that kube-scheduler did not ask about the last time, though its counts of GPUs passed them:
    another of its filters removed them, or it examined few nodes."""
    offered = record.offered if record is not None else None
    if offered is None:
        return []
    return [name for name in snapshot.nodes if offered.knows(name) and name not in offered]
