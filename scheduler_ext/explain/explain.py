"""A decision about a pod in numbers, for people and programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from scheduler_ext.core.cycle.because import PREFERRED, because
from scheduler_ext.core.cycle.cycle import FITS, Decision, filter_nodes, points, select_candidates
from scheduler_ext.core.cycle.placement import share_devices
from scheduler_ext.core.errors import PodError
from scheduler_ext.core.framework.refusal import INVALID_REQUEST
from scheduler_ext.core.intree import InTreeRejection, NodeFacts, PodNeeds
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.node.node_labels import VALUE_LABEL, stated_value, value_text
from scheduler_ext.core.request import wishes
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.request.resource_names import ResourceNames, shown_resource
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.explain.diagnosis import Case, diagnosis
from scheduler_ext.explain.intree_nodes import InTreeNodes
from scheduler_ext.explain.nearest import Refused, miss_of
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod import (
    ClaimLookup,
    not_modelled,
    pod_name,
    pod_needs,
    pod_request,
    pod_uid,
    resource_names,
)

API_VERSION = "cli.scheduler-ext.io/v1alpha1"
# kube-scheduler's scores are 0 to 100 (k8s.io/kube-scheduler/framework, MaxNodeScore).
_MAX_NODE_SCORE = 100


@dataclass(frozen=True, slots=True)
class KubeView:
    """Refusals of kube-scheduler's own filters by node, the nodes as they see them, if known, and its score
    of the pod's preferred node affinity by node, before it is normalized."""

    refused: Mapping[str, InTreeRejection] = field(default_factory=dict)
    facts: Mapping[str, NodeFacts] = field(default_factory=dict)
    preferences: Mapping[str, int] = field(default_factory=dict)


def explain(pod: kube.Pod, state: ClusterState, config: Configuration) -> dict[str, Any]:
    """The Explanation of a pod on a cluster, best node first, as plain JSON values. kube-scheduler's own
    filters run first where Node objects are known, then the extender's, as in a cluster. Raises PodError for
    the pod, InventoryError for an object of the inventory, naming the unreadable field."""
    sizing = config.sizing()
    request = wish(pod, config, state.claims)
    decision = filter_nodes(request, state.snapshot(sizing), sizing.policy)
    kube_view = KubeView()
    # kube-scheduler never sees an unreadable pod, so it has no verdict.
    if isinstance(request, GpuRequest):
        # The extender judges its resources itself, with better numbers.
        nodes = InTreeNodes(state.objects, sizing.resources, state.infos)
        needs = needs_of(pod, state.claims)
        kube_view = KubeView(nodes.refused(needs), nodes.known, nodes.preferences(needs))
    warned = warnings(pod, request, state, sizing.resources)
    return explanation(pod, decision, kube_view, config, warned, state.claims)


def explanation(
    pod: kube.Pod,
    decision: Decision,
    kube_view: KubeView,
    config: Configuration,
    warned: list[str],
    claims: ClaimLookup | None = None,
) -> dict[str, Any]:
    """The Explanation of one decision, as plain JSON values. Raises PodError for a quantity of the pod."""
    fitting = _fitting(decision, kube_view)
    refused = [
        _refused(name, decision, kube_view.refused.get(name), config)
        for name in sorted(decision.snapshot.nodes)
        if name in kube_view.refused or not _passes(decision, name)
    ]
    ranks = [(entry["preference"], entry["score"]) for entry in fitting]
    request = decision.request
    namespace, _, name = pod_name(pod).partition("/")
    return {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        "pod": {"namespace": namespace, "name": name},
        "request": asked(request),
        "invalid": request.message if isinstance(request, InvalidRequest) else None,
        "fits": bool(fitting),
        "best": [entry["node"] for entry, rank in zip(fitting, ranks, strict=True) if rank == ranks[0]],
        "because": _because(decision, fitting),
        **diagnosed(pod, decision, kube_view, config, claims),
        "nodes": fitting + refused,
        "notModelled": not_modelled(pod, claims),
        "warnings": warned,
    }


def _because(decision: Decision, fitting: list[dict[str, Any]]) -> str | None:
    if not fitting:
        return None
    best, *others = fitting
    if others and best["preference"] > others[-1]["preference"]:
        return PREFERRED
    return because(decision, best["node"], [entry["node"] for entry in others])


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
        Case(
            uid=pod_uid(pod),
            request=request,
            needs=needs,
            decision=decision,
            sizing=sizing,
            in_tree=kube_view.refused,
            facts=kube_view.facts,
            ours=frozenset(name for name in needs.requests if sizing.resources.is_gpu(name)),
            namespace=pod_name(pod).partition("/")[0] if config.inspection.hide_other_namespaces else None,
        )
    )


def wish(
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


def _fitting(decision: Decision, kube_view: KubeView) -> list[dict[str, Any]]:
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
    preferences = [_MAX_NODE_SCORE * preference // most for preference in preferences]
    order = sorted(
        range(len(names)),
        key=lambda i: (-preferences[i], -scores[i], -decision.totals[states[i]], names[i]),
    )
    return [
        _fit(snapshot.nodes[names[i]], int(states[i]), int(scores[i]), decision)
        | {"preference": preferences[i]}
        for i in order
    ]


def _fit(node: Node, state: int, score: int, decision: Decision) -> dict[str, Any]:
    terms = [
        {"name": criterion.name, "weight": round(weight, 6), "value": round(float(value[state]), 6)}
        for criterion, weight, value in decision.scored.terms
    ]
    return _entry(
        node,
        verdict="fits",
        score=score,
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
    name: str, decision: Decision, in_tree: InTreeRejection | None, config: Configuration
) -> dict[str, Any]:
    snapshot = decision.snapshot
    node = snapshot.nodes[name]
    code = int(decision.verdict[snapshot.state_at(name)])
    refused = Refused(node, code, in_tree)
    return _entry(
        node,
        by="gpu" if in_tree is None else "kubernetes",
        reason=refused.reason,
        resolvable=_resolvable(node.info, decision, config) if in_tree is None else in_tree.resolvable,
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


def asked(request: GpuRequest | InvalidRequest) -> dict[str, Any]:
    """A request as plain values; empty for an unreadable one."""
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
    }


def _shares(request: GpuRequest) -> list[tuple[str, int]]:
    """The share of each container in MiB, those of init containers last."""
    if request.shares is None:
        return []
    return [*request.shares.running, *((each.container, each.memory_mib) for each in request.shares.init)]


def warnings(
    pod: kube.Pod, request: GpuRequest | InvalidRequest, state: ClusterState, resources: ResourceNames
) -> list[str]:
    """Settings of the pod that have no effect, or that are not compared here."""
    found = pod_warnings(pod, request, resources)
    bare = sorted(name for name in state.infos if name not in state.objects.nodes)
    if bare:
        which = bare[0] + (f" and {len(bare) - 1} more" if bare[1:] else "")
        found.append(
            f"no Node object of {which}: selectors, affinity, taints, CPU and memory are not compared there"
        )
    if state.claims is not None:
        found += shortened(state.claims.pool_problems())
    texts = {
        name: value_text(kube.strings(node.metadata.labels), kube.strings(node.metadata.annotations))
        for name, node in sorted(state.objects.nodes.items())
        if node.metadata is not None
    }
    bad = {name: text for name, text in texts.items() if text is not None and not stated_value(text)}
    if bad:
        first = next(iter(bad))
        which = first + (f" and {len(bad) - 1} more" if len(bad) > 1 else "")
        text = wishes.shown(bad[first])
        found.append(f"{VALUE_LABEL} of {which}: {text} is no price such as 2.5, so the model's counts")
    return found


def shortened(problems: Sequence[str], most: int = 3) -> list[str]:
    """The first of many problems, and the number of the others."""
    others = len(problems) - most
    return [*problems[:most], *([f"and {others} more of this kind"] if others > 0 else [])]


def pod_warnings(pod: kube.Pod, request: GpuRequest | InvalidRequest, resources: ResourceNames) -> list[str]:
    """Settings of the pod that have no effect."""
    found = misspellings(pod, resources)
    if isinstance(request, GpuRequest) and not request.asks_gpu:
        annotations = kube.strings(pod.metadata.annotations) if pod.metadata else {}
        asked = [key for key in annotations if key.startswith(wishes.ANNOTATION_PREFIX)]
        text = "the pod asks no GPU resource, so every node is fine"
        found.append(f"{text} and its annotations do nothing" if asked else text)
    return found


def misspellings(pod: kube.Pod, resources: ResourceNames) -> list[str]:
    """Annotations and resources of the pod that look like ones of this extender and have no effect."""
    annotations = kube.strings(pod.metadata.annotations) if pod.metadata else {}
    found = [
        f"annotation {key}: unknown, does nothing{_meant(key, resources.share)}"
        for key in wishes.unknown_annotations(annotations)
    ]
    others = [name for name in resource_names(pod.spec or kube.PodSpec()) if not resources.is_gpu(name)]
    share = resources.share
    hints = [(f"annotation {name}", wishes.spelling_hint(name, share)) for name in sorted(annotations)]
    hints += [(f"resource {name}", _meant_resource(name, resources)) for name in others]
    return found + [f"{what} has no effect in this extender; {hint}" for what, hint in hints if hint]


def _meant_resource(name: str, resources: ResourceNames) -> str | None:
    singular = name.lower().removesuffix("s")
    if singular in resources.whole:
        return f"did you mean {singular}?"
    return wishes.resource_hint(name, resources.share)


def _meant(key: str, share: str) -> str:
    """The annotation that the author may have meant, or where the resource of shares belongs."""
    if key == share:
        return "; it is a resource: ask it in a container's resources.limits"
    close = get_close_matches(key.removeprefix(wishes.ANNOTATION_PREFIX).lower(), wishes.WISHES, n=1)
    return f"; did you mean {wishes.ANNOTATION_PREFIX}{close[0]}?" if close else ""
