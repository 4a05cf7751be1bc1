"""A decision about a pod in numbers, for people and programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from scheduler_ext.core.cycle.because import PREFERRED, because
from scheduler_ext.core.cycle.cycle import FITS, Decision, filter_nodes, points, select_candidates
from scheduler_ext.core.cycle.placement import share_devices
from scheduler_ext.core.errors import PodError
from scheduler_ext.core.framework.refusal import INVALID_REQUEST
from scheduler_ext.core.intree import InTreeRejection, NodeFacts, PodNeeds
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.request.resource_names import shown_resource
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.explain.autoscaling import cure_of, summary
from scheduler_ext.explain.diagnosis import DiagnosedPod, diagnosis
from scheduler_ext.explain.ineffective import warnings
from scheduler_ext.explain.intree_nodes import InTreeNodes
from scheduler_ext.explain.nearest import RefusingNode, miss_of, nearest_first
from scheduler_ext.explain.numa import numa_notes
from scheduler_ext.extender.new_nodes import Cure, NewNodes
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gangs import gates
from scheduler_ext.wire.pod.pod_claims import ClaimLookup, claim_request
from scheduler_ext.wire.pod.pod_identity import may_preempt, pod_name, pod_priority, pod_uid
from scheduler_ext.wire.pod.pod_needs import not_modelled, pod_needs
from scheduler_ext.wire.pod.pod_request import pod_request

API_VERSION = "cli.scheduler-ext.io/v1alpha1"
# kube-scheduler's scores are 0 to 100 (k8s.io/kube-scheduler/framework, MaxNodeScore).
_MAX_NODE_SCORE = 100
# The nodes of helpful kinds that an Explanation names.
_LIKE = 20


@dataclass(frozen=True, slots=True)
class KubeView:
    """Refusals of kube-scheduler's own filters by node, the nodes as they see them, if known, and its score
    of the pod's preferred node affinity by node, before it is normalized. `skipped` are nodes that it did not
    ask about for an unknown reason, and that the extender refuses. The filters did not count the resources in
    `ignored`. `cures` are the verdicts of the extender's filters on new nodes. `kept` has the nodes that are
    refused only because of room that is kept for a gang, with the gang."""

    refused: Mapping[str, InTreeRejection] = field(default_factory=dict)
    facts: Mapping[str, NodeFacts] = field(default_factory=dict)
    preferences: Mapping[str, int] = field(default_factory=dict)
    skipped: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    cures: Mapping[str, Cure] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)


class _Fitting(NamedTuple):
    """A node that fits, with its points."""

    preference: int
    score: int
    node: str
    state: int


def explain(pod: kube.Pod, state: ClusterState, config: Configuration) -> dict[str, Any]:
    """The Explanation of a pod on a cluster, best node first, as plain JSON values. kube-scheduler's own
    filters run first where Node objects are known, then the extender's, as in a cluster. Raises PodError for
    the pod, InventoryError for an object of the inventory, naming the unreadable field."""
    sizing = config.sizing()
    request = request_of(pod, config, state.claims)
    seen = state.snapshot_for(state.waiting_uid(pod), pod_priority(pod), sizing)
    decision = filter_nodes(request, seen, sizing.policy)
    kube_view = KubeView(cures=NewNodes(sizing).cures(request, decision.snapshot))
    # kube-scheduler never sees an unreadable pod, so it has no verdict.
    if isinstance(request, GpuRequest):
        # The extender judges its resources itself, with better numbers.
        nodes = InTreeNodes(state.objects, sizing.resources, state.infos, state.claims)
        needs = needs_of(pod, state.claims)
        kube_view = replace(
            kube_view,
            refused=nodes.refused(needs),
            facts=nodes.all_facts,
            preferences=nodes.preferences(needs),
            ignored=nodes.ours(needs),
        )
    warned = warnings(pod, request, state, sizing.resources)
    return explanation(pod, decision, kube_view, config, warned, state.claims)


def explanation(
    pod: kube.Pod,
    decision: Decision,
    kube_view: KubeView,
    config: Configuration,
    warned: list[str],
    claims: ClaimLookup | None = None,
    most: int | None = None,
    *,
    dry_runs: bool = True,
) -> dict[str, Any]:
    """The Explanation of one decision, as plain JSON values: with all nodes, those that refuse it by name;
    or with so many at `most`, those that refuse it nearest first, and the number of the others in
    `nodesLeftOut`. Without dry runs, `resolvable` is None where the extender refuses a node. Raises PodError
    for a quantity of the pod."""
    request = decision.request
    fitting = _fitting(decision, kube_view)
    refused = _all_refused(decision, kube_view)
    needs = needs_of(pod, claims) if isinstance(request, GpuRequest) else None
    cures = {each.node.info.name: _cure(each, needs, kube_view) for each in refused}
    verdicts = summary(cures.items())
    left_out = {}
    if most is not None:
        left_out["nodesLeftOut"] = max(0, len(fitting) + len(refused) - most)
        least = max(0, most - len(fitting))
        if needs is not None:
            refused = nearest_first(refused, least, decision, needs, _ours(needs, config))
        refused = refused[:least]
    namespace, _, name = pod_name(pod).partition("/")
    nodes = (decision.snapshot.nodes[each.node] for each in fitting)
    numa = numa_notes(request, nodes) if isinstance(request, GpuRequest) else []
    return {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        "pod": {"namespace": namespace, "name": name},
        "request": request_values(pod, request, claims),
        "invalid": request.message if isinstance(request, InvalidRequest) else None,
        "fits": bool(fitting),
        "best": [each.node for each in fitting if each[:2] == fitting[0][:2]],
        "because": _because(decision, fitting),
        **diagnosed(pod, decision, kube_view, config, claims),
        "autoscaler": verdicts | {"like": verdicts["like"][:_LIKE]},
        "nodes": [
            *(_fit(each, decision) for each in fitting[:most]),
            *(
                _refused(each, decision, config, dry_runs) | {"autoscaler": cures[each.node.info.name]}
                for each in refused
            ),
        ],
        **left_out,
        "notModelled": not_modelled(pod, claims),
        "warnings": [*warned, *numa],
    }


def _all_refused(decision: Decision, kube_view: KubeView) -> list[RefusingNode]:
    """The nodes that this extender or kube-scheduler's own filters refuse, by name."""
    snapshot = decision.snapshot
    return [
        RefusingNode(
            node,
            decision.request,
            int(decision.verdict[snapshot.state_at(name)]),
            kube_view.refused.get(name),
            kube_view.facts.get(name),
            kept=kube_view.kept.get(name),
        )
        for name, node in sorted(snapshot.nodes.items())
        if name in kube_view.refused or not _passes(decision, name)
    ]


def _cure(refused: RefusingNode, needs: PodNeeds | None, kube_view: KubeView) -> Cure:
    gpus = kube_view.cures.get(refused.node.info.name, "unknown")
    return cure_of(gpus, needs, refused.facts, refused.in_tree, kube_view.ignored)


def _because(decision: Decision, fitting: Sequence[_Fitting]) -> str | None:
    if not fitting:
        return None
    best, *others = fitting
    if others and best.preference > others[-1].preference:
        return PREFERRED
    return because(decision, best.node, [each.node for each in others])


def diagnosed(
    pod: kube.Pod,
    decision: Decision,
    kube_view: KubeView,
    config: Configuration,
    claims: ClaimLookup | None = None,
) -> dict[str, Any]:
    """The part of an Explanation about all nodes together: counts, nearest, advice. Raises PodError."""
    request = decision.request
    if isinstance(request, InvalidRequest):
        count = len(decision.snapshot.nodes)
        counts = {INVALID_REQUEST.text: count} if count else {}
        return {"counts": counts, "nearest": None, "advice": [request.message]}
    needs, sizing = needs_of(pod, claims), config.sizing()
    return diagnosis(
        DiagnosedPod(
            uid=pod_uid(pod),
            request=request,
            needs=needs,
            decision=decision,
            sizing=sizing,
            in_tree=kube_view.refused,
            facts=kube_view.facts,
            skipped=kube_view.skipped,
            kept=kube_view.kept,
            ours=_ours(needs, config),
            namespace=pod_name(pod).partition("/")[0] if config.inspection.hide_other_namespaces else None,
            no_eviction=_why_no_eviction(pod),
            in_vain=bool(kube_view.cures) and {*kube_view.cures.values()} == {"incurable"},
        )
    )


def _why_no_eviction(pod: kube.Pod) -> str | None:
    """Why kube-scheduler evicts no other pod for this one; None if it may."""
    if not may_preempt(pod):
        return "no pod is evicted for it, because its preemptionPolicy is Never"
    return "kube-scheduler evicts no pod for it while it has scheduling gates" if gates(pod) else None


def _ours(needs: PodNeeds, config: Configuration) -> frozenset[str]:
    """The requested resources that kube-scheduler leaves to the extender."""
    resources = config.resource_names()
    return frozenset(name for name in needs.requests if resources.is_gpu(name))


def request_of(
    pod: kube.Pod, config: Configuration, claims: ClaimLookup | None = None
) -> GpuRequest | InvalidRequest:
    """A pod's GPU request. Raises PodError for an amount of the wrong JSON type."""
    try:
        return pod_request(pod, config.resource_names(), claims)
    except QuantityError as error:
        raise PodError(f"Pod {pod_name(pod)}: {error}") from None


def _passes(decision: Decision, name: str) -> bool:
    return bool(decision.verdict[decision.snapshot.state_at(name)] == FITS)


def needs_of(pod: kube.Pod, claims: ClaimLookup | None = None) -> PodNeeds:
    """What kube-scheduler's own filters read. Raises PodError for an amount."""
    try:
        return pod_needs(pod, claims)
    except QuantityError as error:
        raise PodError(f"Pod {pod_name(pod)}: {error}") from None


def _fitting(decision: Decision, kube_view: KubeView) -> list[_Fitting]:
    """The nodes that fit, best first, with kube-scheduler's points for those that filter returns. The pod's
    preferred node affinity comes first, as with the shipped configuration of kube-scheduler."""
    snapshot = decision.snapshot
    refused = kube_view.refused
    names = sorted(name for name in snapshot.nodes if name not in refused and _passes(decision, name))
    rows = snapshot.rows(names)
    states = snapshot.state_of[rows]
    given_back = select_candidates(decision, rows, decision.policy.max_candidates)
    scores = np.zeros(len(names), np.int64)
    scores[given_back] = points(decision.totals[states[given_back]], decision.scored.resolution)
    preferences = [kube_view.preferences.get(name, 0) for name in names]
    # NodeAffinity normalizes them over the nodes that fit, and rounds down.
    most = max(preferences, default=0) or 1
    fitting = [
        _Fitting(_MAX_NODE_SCORE * preference // most, int(score), name, int(state))
        for preference, score, name, state in zip(preferences, scores, names, states, strict=True)
    ]
    return sorted(
        fitting, key=lambda each: (-each.preference, -each.score, -decision.totals[each.state], each.node)
    )


def _fit(fitting: _Fitting, decision: Decision) -> dict[str, Any]:
    node, state = decision.snapshot.nodes[fitting.node], fitting.state
    terms = [
        {"name": criterion.name, "weight": round(weight, 6), "value": round(float(value[state]), 6)}
        for criterion, weight, value in decision.scored.terms
    ]
    return _entry(
        node,
        verdict="fits",
        preference=fitting.preference,
        score=fitting.score,
        total=round(float(decision.totals[state]), 6),
        terms=terms,
        devices=allocation(node, state, decision),
    )


def _entry(node: Node, **verdict: Any) -> dict[str, Any]:
    """The node with its models, None if it has no GPU, its numbers of GPUs and free GPUs, and the verdict."""
    return {
        "node": node.info.name,
        "model": ", ".join(node.models) or None,
        "gpus": node.state.gpus,
        "freeGpus": node.free_gpus,
        "verdict": "rejected",
        "by": "gpu",
        "reason": None,
        "resolvable": False,
        "nearestMiss": None,
        "preference": 0,
        "score": 0,
        "total": None,
        "terms": [],
        "devices": [],
    } | verdict


def allocation(node: Node, state: int, decision: Decision) -> list[dict[str, Any]]:
    """The allocation: a GPU for each share; resource and count alone where the device plugin picks, or
    kube-scheduler for a claim."""
    request = decision.request
    if isinstance(request, InvalidRequest) or not request.asks_gpu:
        return []
    profiles = {ask.resource: ask.profile for ask in request.units}
    devices = [
        _device(container, None, profiles[resource], None, by_claim=node.info.by_claim(resource))
        for container, resource, count in request.by_container
        if resource in profiles
        for _ in range(count)
    ]
    for ask in (each for each in request.units if each.by_claim):
        devices += [_device(None, None, None, None, by_claim=True)] * ask.count
    uuids = share_devices(node, state, decision)
    return devices + [_device(name, uuids[name][0], None, mib) for name, mib in _shares(request)]


def _device(
    container: str | None, uuid: str | None, profile: str | None, mib: int | None, *, by_claim: bool = False
) -> dict[str, Any]:
    """A GPU of a container; None: of a claim of the pod."""
    device = {"container": container, "uuid": uuid, "profile": profile, "start": None, "memoryMiB": mib}
    return device | ({"by": "claim"} if by_claim else {})


def _refused(
    refused: RefusingNode, decision: Decision, config: Configuration, dry_runs: bool
) -> dict[str, Any]:
    in_tree, node = refused.in_tree, refused.node
    resolvable: bool | None = None
    if in_tree is not None:
        resolvable = in_tree.resolvable
    elif dry_runs:
        resolvable = _resolvable(node.info, decision, config)
    return _entry(
        node,
        by="gpu" if in_tree is None else "kubernetes",
        reason=refused.reason,
        resolvable=resolvable,
        nearestMiss=miss_of(refused, decision),
    )


def _resolvable(info: NodeInfo, decision: Decision, config: Configuration) -> bool:
    """Whether the pod would fit if the pods of lower priority left."""
    request = decision.request
    if isinstance(request, InvalidRequest) or not any(pod.priority < request.priority for pod in info.pods):
        return False
    left = tuple(replace(pod, departed=pod.departed or pod.priority < request.priority) for pod in info.pods)
    node = config.sizing().resolved(replace(info, pods=left))
    alone = filter_nodes(request, build_snapshot({info.name: node}, 1), decision.policy)
    return _passes(alone, info.name)


def request_values(
    pod: kube.Pod, request: GpuRequest | InvalidRequest, claims: ClaimLookup | None
) -> dict[str, Any]:
    """The request of a pod as plain values; empty for an unreadable one. `held` are its claims that hold
    their devices already, such as those that it shares with other pods."""
    if isinstance(request, InvalidRequest):
        return {"gpus": {}, "mig": {}, "shares": []}
    claimed = [
        {"devices": shown_resource(ask.resource), "count": ask.count or None}
        for ask in request.units
        if ask.by_claim
    ]
    named = [ask for ask in request.units if not ask.by_claim]
    return {
        "gpus": {ask.resource: ask.count for ask in named if ask.profile is None},
        "mig": {ask.resource: ask.count for ask in named if ask.profile is not None},
        "shares": [{"container": container, "memoryMiB": mib} for container, mib in _shares(request)],
        **({"claims": claimed} if claimed else {}),
        **({"held": list(held)} if (held := claim_request(pod, claims).held) else {}),
    }


def _shares(request: GpuRequest) -> list[tuple[str, int]]:
    """The share of each container in MiB, those of init containers last."""
    if request.shares is None:
        return []
    return [*request.shares.running, *((each.container, each.memory_mib) for each in request.shares.init)]
