"""Advice for a pod that fits nowhere: existing names, smaller requests, kube-scheduler's filters."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.filters import FILTERS
from scheduler_ext.core.filters.counts import not_offered, offers
from scheduler_ext.core.framework.criterion import Trial
from scheduler_ext.core.framework.refusal import few
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.intree import InTreeRejection, PodNeeds, is_passing
from scheduler_ext.core.intree.affinity import Requirement
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.constraints import ANNOTATION_PREFIX, CONSTRAINTS, selector_hint
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import ResourceNames, shown_resource
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.nearest import RefusingNode
from scheduler_ext.explain.sentences import listed, nodes_in_words
from scheduler_ext.wire.node_info import SHARE_NODE_LABEL

_NAMED_RESOURCES = 6
_NAMED_LABELS = 5
_NAMED_CAUSES = 3
_UNCONSTRAINED = GpuRequest()
# Only constraints that some filter reads can refuse a node.
_LOWERED = {constraint: lower for each in FILTERS for constraint, lower in each.relaxed.items()}
_FIELDS = {constraint: field for constraint, (field, _) in CONSTRAINTS.items() if constraint in _LOWERED}
_NOT_OFFERED = (
    "its own filters refuse it (see the pod's events), or it examines few nodes (percentageOfNodesToScore)"
)
# The end of a sentence about a node that kube-scheduler did not ask about.
SKIPPED = f"kube-scheduler did not ask about it: {_NOT_OFFERED}"
_REMEDIES = {
    "NotOffered": _NOT_OFFERED,
    "NodeName": "leave spec.nodeName out; with it, a pod skips the scheduler",
    "TaintToleration": "tolerate the taint in spec.tolerations, if the pod may run there",
    "NodeAffinity": "change spec.nodeSelector or the node affinity, or label nodes to match",
    "NodeResourcesFit": "ask less of it",
}


def unoffered(request: GpuRequest, snapshot: Snapshot, resources: ResourceNames) -> Iterator[str]:
    """A sentence for the models and each resource that no node has, with the existing ones."""
    offered = {name for model in snapshot.models for name in (model.name, model.family)}
    nowhere = [model for model in request.models if model not in offered]
    if nowhere:
        close = get_close_matches(nowhere[0], sorted(offered), n=2)
        meant = f"; did you mean {listed(close, 'or')}?" if close else ""
        yield f"no node has a GPU of model {few(nowhere)}{meant}"
    there = offers(snapshot.nodes.values())
    missing = [ask for ask in request.units if not there[ask.resource]]
    for ask in missing:
        mig = {name for name in there if name.startswith(MIG_PREFIX)}
        alike = mig if ask.profile is not None else there.keys() & {*resources.whole}
        kin = Counter({name: there[name] for name in sorted(alike or mig)})
        named = [
            f"{shown_resource(name)} (on {nodes_in_words(n)})"
            for name, n in kin.most_common(_NAMED_RESOURCES)
        ]
        instead = f"; they offer {listed(named, 'or')}" if named else ""
        if named or not any(withdrawn(ask.resource, snapshot)):
            yield f"no node offers {shown_resource(ask.resource)}{instead}"
    for ask in request.units:
        yield from withdrawn(ask.resource, snapshot)
    if request.shares is not None and not any(map(_hands_out_shares, snapshot.nodes.values())):
        yield f"no node hands out memory shares: label nodes {SHARE_NODE_LABEL}=memory, or ask whole GPUs"
    elif not missing:
        yield from _together(request, snapshot)


def withdrawn(resource: str, snapshot: Snapshot) -> Iterator[str]:
    """A sentence for each cause for which nodes with GPUs do not offer a resource."""
    found: dict[str, list[str]] = {}
    for name, node in sorted(snapshot.nodes.items()):
        if (cause := not_offered(node, shown_resource(resource))) is not None:
            found.setdefault(cause, []).append(name)
    for cause, names in [*found.items()][:_NAMED_CAUSES]:
        which = listed(names, "and", _NAMED_LABELS)
        yield f"have an operator see to {which}: {cause}"


def _hands_out_shares(node: Node) -> bool:
    """Whether the node accepts shares, or would if its agent reported."""
    state = node.state
    return node.info.share_node or (state.offers_shares and state.gpus > 0 and not state.estimated)


def _together(request: GpuRequest, snapshot: Snapshot) -> Iterator[str]:
    """Resources that no node has side by side."""
    names = [ask.resource for ask in request.units]
    kinds = [*names, *(["memory shares"] if request.shares is not None else [])]
    if len(kinds) > 1 and not any(
        all(offers([node])[name] for name in names) and (request.shares is None or _hands_out_shares(node))
        for node in snapshot.nodes.values()
    ):
        shown = " and ".join(map(shown_resource, kinds))
        yield f"no node offers {shown} together: ask for them in pods of their own"


def relaxations(request: GpuRequest, snapshot: Snapshot, policy: SchedulingPolicy, asked: Bools) -> list[str]:
    """The single changes after which the pod fits on some of the nodes in `asked`, `[row]`."""

    def where(changed: GpuRequest) -> Bools:
        decision = filter_nodes(changed, snapshot, policy)
        fit: Bools = decision.fits[snapshot.state_of[:-1]] & asked
        return fit

    trial = Trial(snapshot, where)
    smaller = (
        (change, trial.fits(changed))
        for each in FILTERS
        if each.applies(request)
        for change, changed in each.smaller(request, trial)
    )
    return [
        f"{change} it would fit on {nodes_in_words(nodes)} now"
        for change, nodes in (*_less_constrained(request, trial), *smaller)
        if nodes
    ]


def _less_constrained(request: GpuRequest, trial: Trial) -> Iterator[tuple[str, int]]:
    """Each constraint with the mildest value that fits somewhere, and dropped if that gives more nodes."""
    helps = False
    constrained = [
        constraint
        for constraint, name in _FIELDS.items()
        if getattr(request, name) != getattr(_UNCONSTRAINED, name)
    ]
    for constraint in constrained:
        key = f"{ANNOTATION_PREFIX}{constraint}"
        without = trial.fits(_without(request, constraint))
        helps = helps or without > 0
        nodes = 0
        if without and (lower := _LOWERED[constraint](request, trial)) is not None:
            value, changed = lower
            nodes = trial.fits(changed)
            yield f"with {key}: {value}", nodes
        if without > nodes:
            yield f"without the annotation {key}", without
    if not helps and len(constrained) > 1:
        keys = ", ".join(f"{ANNOTATION_PREFIX}{constraint}" for constraint in constrained)
        yield f"without any of the annotations {keys}", trial.fits(_without(request, *constrained))


def _without(request: GpuRequest, *constraints: str) -> GpuRequest:
    return replace(
        request,
        **{_FIELDS[constraint]: getattr(_UNCONSTRAINED, _FIELDS[constraint]) for constraint in constraints},
    )


def remedy(example: RefusingNode, alike: Sequence[RefusingNode], needs: PodNeeds) -> str:
    """The change that helps, as the end of a sentence. `example` is the nearest of the nodes that the same
    filter of kube-scheduler refuses (`alike`)."""
    rejection = example.in_tree
    assert rejection is not None
    match rejection.plugin:
        case "NodeUnschedulable":
            return f"uncordon it with `kubectl uncordon {example.node.info.name}`, or use others"
        case "TaintToleration" if rejection.have and is_passing(_taint_key(rejection.have)):
            return (
                "wait, because the taint is that of a node which starts, has a problem or ends; "
                f"`kubectl describe node {example.node.info.name}` says which"
            )
        case "TaintToleration" if rejection.have:
            return f"if the pod may run there, add to its spec.tolerations: {_toleration(rejection.have)}"
        case "NodeResourcesFit":
            absent = _absent(rejection, alike)
            return (
                f"no node has {absent} in its allocatable; correct the name, or add nodes that offer it"
                if absent
                else f"{_less(rejection)}{_or_wait(alike)}"
            )
        case "NodeAffinity":
            return f"{_REMEDIES['NodeAffinity']}{_labels(alike, needs)}"
    return _REMEDIES.get(rejection.plugin, "see the pod's events")


def _taint_key(taint: str) -> str:
    return taint.rpartition(":")[0].partition("=")[0]


def _toleration(taint: str) -> str:
    """The toleration for a taint, as KEY=VALUE:EFFECT."""
    named, _, effect = taint.rpartition(":")
    key, _, value = named.partition("=")
    how = f"operator: Equal, value: {value}" if value else "operator: Exists"
    return f"{{key: {key}, {how}, effect: {effect}}}"


def _less(rejection: InTreeRejection) -> str:
    """With the amount that would fit, if there is one resource that is partly free."""
    resource = rejection.reason.removeprefix("Insufficient ")
    have = rejection.have or ""
    is_partly_free = "," not in have and have.strip("0") and not have.startswith("-")
    if not rejection.alone or resource == rejection.reason or not is_partly_free:
        return _REMEDIES["NodeResourcesFit"]
    return f"ask at most {have} {resource}"


def _absent(rejection: InTreeRejection, alike: Sequence[RefusingNode]) -> str | None:
    """The missing resource, if it is one of devices that none of these nodes has."""
    resource = rejection.reason.removeprefix("Insufficient ")
    facts = [each.facts for each in alike if each.facts is not None]
    is_absent = "/" in resource and not any(each.allocatable.get(resource) for each in facts)
    return resource if is_absent and "," not in resource else None


def _or_wait(alike: Sequence[RefusingNode]) -> str:
    """Whether the pod fits on one of these nodes after others leave."""
    if any(each.in_tree is not None and each.in_tree.resolvable for each in alike):
        return ", wait for other pods, or add nodes"
    return ", or add larger nodes"


def _labels(alike: Sequence[RefusingNode], needs: PodNeeds) -> str:
    """The labels in the pod's nodeSelector and affinity that none of the nodes has; without any, the nodes'
    values of the first label in its nodeSelector that none of them meets."""
    selected = [Requirement(key, "In", (value,)) for key, value in needs.node_selector.items()]
    wanted = [each for term in needs.required_terms or () for each in term.expressions]
    absent: dict[str, str | None] = {}
    others = ""
    for each in (*selected, *wanted):
        there = Counter(one.facts.labels.get(each.key) for one in alike if one.facts is not None)
        if not there or any(value in there for value in each.values):
            continue
        del there[None]
        if not there and each.operator in ("In", "Exists", "Gt", "Lt"):
            absent[each.key] = selector_hint(each.key, each.operator, each.values)
        elif there and each in selected:
            named = [str(name) for name, _ in there.most_common()]
            others = others or f"; their {each.key} is {listed(named, 'or', _NAMED_LABELS)}"
    if not absent:
        return others
    hints = dict.fromkeys(hint for hint in absent.values() if hint is not None)
    return "; ".join(("", f"none of them has a label {listed([*absent], 'or')}", *hints))
