"""Advice for refusals of kube-scheduler's own filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scheduler_ext.core.intree import InTreeRejection, PodNeeds
from scheduler_ext.core.request.wishes import spelling_hint
from scheduler_ext.explain.nearest import Refused
from scheduler_ext.explain.unoffered import one_of

_NAMED = 5
_REMEDIES = {
    "NotOffered": "its own filters refuse it (see the pod's events), or it examines few nodes "
    "(percentageOfNodesToScore)",
    "NodeName": "leave spec.nodeName out; with it, a pod skips the scheduler",
    "TaintToleration": "tolerate the taint in spec.tolerations, if the pod may be there",
    "NodeAffinity": "change spec.nodeSelector or the node affinity, or label nodes so",
    "NodeResourcesFit": "ask less of it, wait for other pods, or add nodes",
}


def remedy(example: Refused, alike: Sequence[Refused], needs: PodNeeds) -> str:
    """The change that helps, as the end of a sentence. ``example`` is the nearest of the nodes that the same
    filter refuses (``alike``).
    """
    rejection = example.in_tree
    assert rejection is not None
    match rejection.plugin:
        case "NodeUnschedulable":
            return f"uncordon it with `kubectl uncordon {example.node.info.name}`, or use others"
        case "TaintToleration" if rejection.have:
            return f"if the pod may be there, add to its spec.tolerations: {_toleration(rejection.have)}"
        case "NodeResourcesFit" if rejection.alone:
            return _less(rejection)
        case "NodeAffinity":
            labels = _labels(alike, needs)
            return f"{_REMEDIES['NodeAffinity']}{labels}"
    return _REMEDIES.get(rejection.plugin, "see the pod's events")


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
    if resource == rejection.reason or "," in have or not have.strip("0") or have.startswith("-"):
        return _REMEDIES["NodeResourcesFit"]
    return f"ask at most {have} {resource}, wait for other pods, or add nodes"


def _labels(alike: Sequence[Refused], needs: PodNeeds) -> str:
    """The nodes' values of a label in the pod's nodeSelector that none of them meets."""
    for key, value in needs.node_selector.items():
        there = Counter(each.facts.labels.get(key) for each in alike if each.facts is not None)
        if not there or value in there:
            continue
        del there[None]
        if not there:
            hint = spelling_hint(key)
            return f"; none of them has a label {key}" + (f"; {hint}" if hint else "")
        named = [str(name) for name, _ in there.most_common(_NAMED)]
        more = len(there) - len(named)
        if more:
            named.append(f"{more} more")
        return f"; their {key} is {one_of(named)}"
    return ""
