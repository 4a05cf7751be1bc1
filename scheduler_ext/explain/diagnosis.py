"""Why a pod fits nowhere, and which changes would help."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from scheduler_ext.core.cycle.cycle import FITS, Decision
from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.filters import BY_NAME
from scheduler_ext.core.intree import NO_NODES, InTreeRejection, NodeFacts, PodNeeds
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.preemption.dry_run import DryRun
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.explain.advice import SKIPPED, relaxations, remedy, unoffered
from scheduler_ext.explain.nearest import OWN_GANG, RefusingNode, miss_of, nearest
from scheduler_ext.explain.sentences import leavers, nodes_in_words, obstacle, visible

# A node has a few hundred pods with GPUs at most; larger crowds are reported as a whole.
_MOST_BLOCKERS = 256
# In place of a remedy that is to wait, where an empty node would not do either.
_IN_VAIN = {
    BY_NAME["gpu-count"].reason.remedy: (
        "wait for no pod: no node has such GPUs, even empty; request less, or add other nodes"
    ),
    BY_NAME["mig-placement"].reason.remedy: (
        "wait for no instance: no node has so many of the profile, even empty; request fewer or another "
        "profile, or change its MIG configuration"
    ),
}


@dataclass(frozen=True, slots=True)
class DiagnosedPod:
    """A pod and the nodes of its decision. `in_tree` are kube-scheduler's refusals, by node; `facts` are
    the nodes as its filters see them, if known; `skipped` are nodes that it did not ask about for an unknown
    reason, and that the extender refuses. `kept` are nodes with room for a gang. `namespace` is the only one
    whose other pods are named; None names all. `no_eviction` says why no pod is evicted for it; None if some
    may be. `in_vain`: no node's GPUs would do if all pods had left."""

    uid: str
    request: GpuRequest
    needs: PodNeeds
    decision: Decision
    sizing: Sizing
    in_tree: Mapping[str, InTreeRejection]
    facts: Mapping[str, NodeFacts]
    skipped: frozenset[str]
    kept: Mapping[str, str]
    ours: frozenset[str]
    namespace: str | None
    no_eviction: str | None
    in_vain: bool

    def fits_on(self, info: NodeInfo) -> bool:
        """Whether the request fits on a node as it is not."""
        return DryRun(info, (), self.request, self.sizing).fits(())


def diagnosis(case: DiagnosedPod) -> dict[str, Any]:
    """The number of nodes for each reason, the refusal that is nearest to a fit, and the changes that would
    help. Plain JSON values: `counts` by reason; `nearest` (node, by, reason, nearestMiss, text,
    wouldFitWithout) or None if it fits or there are no nodes; `advice`, sentences, the best first."""
    snapshot = case.decision.snapshot
    codes = case.decision.verdict[snapshot.state_of[:-1]].tolist()
    refused = [
        RefusingNode(
            node, case.request, code, case.in_tree.get(name), case.facts.get(name), kept=case.kept.get(name)
        )
        for name, node in snapshot.nodes.items()
        if (code := codes[snapshot.row_of[name]]) != FITS or name in case.in_tree
    ]
    counts = Counter(each.reason for each in refused)
    found: dict[str, Any] = {"counts": dict(counts.most_common()), "nearest": None, "advice": []}
    if len(refused) < len(snapshot.nodes):
        return found
    near = nearest(refused, case.decision, case.needs, case.ours)
    if near is None:
        return found | {"advice": [f"There are {NO_NODES}: none has been seen yet, or none exists"]}
    miss = miss_of(near, case.decision)
    leaving: list[BoundPod] = []
    if near.in_tree is None and near.kept is None:
        leaving = blockers(near.node, case.request, case.sizing, case.uid)
    text = obstacle(near.node, near.reason, miss)
    if near.in_tree is None and near.kept is not None:
        text = f"{near.node.info.name} has room that is kept for {near.kept}"
    if leaving:
        gone = "ended" if any(pod.expected for pod in leaving) else "left"
        text += f"; would fit if {leavers(leaving, case.namespace)} {gone}"
    found["nearest"] = {
        "node": near.node.info.name,
        "by": "gpu" if near.in_tree is None else "kubernetes",
        "reason": near.reason,
        "nearestMiss": miss,
        "text": text,
        "wouldFitWithout": [_leaver(pod, case.namespace) for pod in leaving],
    }
    ours = near.in_tree is None and near.kept is None
    numbers = case.decision.nearest_miss(near.node.info.name) if ours else None
    operators = None
    if numbers is not None:
        operators = BY_NAME[numbers.criterion].for_operators(numbers, near.node, case.request, case.fits_on)
    ways = [_changes(case), _of_kubernetes(refused, near, case)]
    found["advice"] = [
        *unoffered(case.request, snapshot, case.sizing.resources),
        *_waiting(near, leaving, case),
        *([operators] if operators else []),
        # The nearest node's needs come first.
        *chain.from_iterable(ways if near.in_tree is None else reversed(ways)),
    ]
    if not found["advice"]:
        found["advice"] = [_IN_VAIN.get(near.remedy, near.remedy) if case.in_vain else near.remedy]
    found["advice"] = [advice[0].upper() + advice[1:] for advice in found["advice"]]
    return found


def blockers(node: Node, request: GpuRequest, sizing: Sizing, uid: str) -> list[BoundPod]:
    """A few pods, of the lowest priorities, without which the request fits on the node; none if that does not
    help. One pod if one suffices, otherwise as many of the lowest priorities as needed, and none in vain.
    `uid` is the requesting pod, which does not block itself."""
    pods = sorted(
        (pod for pod in node.info.pods if pod.holds and pod.uid != uid and pod.request.asks_gpu),
        key=lambda pod: (not pod.terminating, pod.priority, pod.namespace, pod.name),
    )[:_MOST_BLOCKERS]
    if not pods:
        return []
    run = DryRun(node.info, pods, request, sizing)
    found = run.first_fit([(i,) for i in range(len(pods))])
    if found is None:
        found = run.first_fit([tuple(range(count)) for count in range(2, len(pods) + 1)]) or ()
        # The highest priorities stay first, if they may.
        for i in reversed(found):
            fewer = tuple(each for each in found if each != i)
            if run.fits(fewer):
                found = fewer
    return [pods[i] for i in found]


def _leaver(pod: BoundPod, namespace: str | None) -> dict[str, Any]:
    seen = visible(pod, namespace)
    return {
        "namespace": pod.namespace if seen else None,
        "name": pod.name if seen else None,
        "priority": pod.priority,
        "terminating": pod.terminating,
        **({"expected": True} if pod.expected else {}),
    }


def _waiting(near: RefusingNode, leaving: Sequence[BoundPod], case: DiagnosedPod) -> list[str]:
    """The pods to wait for, and whether kube-scheduler would evict them."""
    if near.in_tree is None and near.kept is not None:
        if near.kept == OWN_GANG:
            return ["wait until all of the pod's gang fit: `scheduler-ext why` says what the gang waits for"]
        highest = max(pod.priority for pod in near.node.info.planned if pod.expected)
        return [
            f"wait for {near.kept}, which comes first by priority and age; a pod with a priority above "
            f"{highest} may use the room now"
        ]
    if not leaving:
        return []
    who = leavers(leaving, case.namespace)
    ends = "ends" if len(leaving) == 1 else "end"
    highest = max(pod.priority for pod in leaving)
    text = f"it fits on {near.node.info.name} as soon as {who} {ends}"
    if near.node.info.name in case.skipped:
        return [f"the GPUs of {near.node.info.name} would do as soon as {who} {ends}, but {SKIPPED}"]
    if all(pod.terminating for pod in leaving):
        return [text]
    if all(pod.expected for pod in leaving):
        return [f"{text}; a pod with a priority above {highest} may take its place now"]
    if case.no_eviction is not None:
        return [f"{text}; {case.no_eviction}"]
    if highest < case.request.priority:
        return [f"{text}; kube-scheduler may evict for it, as its priority {case.request.priority} is higher"]
    return [f"{text}; with a priority above {highest} kube-scheduler might evict for it"]


def _changes(case: DiagnosedPod) -> list[str]:
    snapshot = case.decision.snapshot
    asked: Bools = np.ones(len(snapshot.state_of) - 1, np.bool_)
    refused = {*case.in_tree, *case.skipped}
    asked[snapshot.rows([name for name in refused if name in snapshot.nodes])] = False
    return relaxations(case.request, snapshot, case.sizing.policy, asked)


def _of_kubernetes(refused: Sequence[RefusingNode], near: RefusingNode, case: DiagnosedPod) -> list[str]:
    """Kubernetes' obstacles to nodes with sufficient GPUs."""
    kept: dict[tuple[str, str], list[RefusingNode]] = {}
    for each in refused:
        if each.in_tree is not None and each.code == FITS:
            kept.setdefault((each.in_tree.plugin, each.in_tree.reason), []).append(each)
    sentences = []
    for (_, reason), nodes in sorted(kept.items(), key=lambda item: -len(item[1])):
        example = nearest(nodes, case.decision, case.needs, case.ours)
        assert example is not None
        why = reason
        if example is not near:
            why = obstacle(example.node, reason, miss_of(example, case.decision))
        them = "it" if len(nodes) == 1 else "them"
        sentences.append(
            f"the GPUs of {nodes_in_words(len(nodes))} would do, but kube-scheduler refuses {them} ({why}): "
            f"{remedy(example, nodes, case.needs)}"
        )
    return sentences
