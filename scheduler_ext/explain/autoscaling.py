"""Whether a new node of the same kind would take a pod that a node refuses: all that an autoscaler can do."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from scheduler_ext.core.intree import InTreeRejection, NodeFacts, PodNeeds, facts_as_new, intree_rejection
from scheduler_ext.explain.sentences import listed
from scheduler_ext.extender.new_nodes import CURES, Cure

_NAMED = 3
# kube-scheduler removed the node; why, and whether a new one would pass, is unknown here.
_UNKNOWN_PLUGIN = "NotOffered"


def cure_of(
    gpus: Cure,
    needs: PodNeeds | None,
    facts: NodeFacts | None,
    rejection: InTreeRejection | None,
    ignored: frozenset[str],
) -> Cure:
    """The verdict on a new node: that on its GPUs, and that of kube-scheduler's own filters, which do not
    count `ignored` resources. Without `facts`, only the name is compared; `needs` are None for an invalid
    request."""
    if gpus == "incurable" or needs is None or needs.node_name or needs.claim_nodes:
        return "incurable"
    offered = [name for name, amount in facts.allocatable.items() if amount] if facts is not None else ()
    if facts is not None and not all(
        each.admit(facts.name, offered, as_new=True) for each in needs.claim_hosts
    ):
        return "incurable"
    # A new node has another name.
    needs = replace(needs, claim_hosts=())
    empty = facts_as_new(facts) if facts is not None else None
    if empty is not None and intree_rejection(needs, empty, ignore_resources=ignored) is not None:
        return "incurable"
    if rejection is not None and rejection.plugin == _UNKNOWN_PLUGIN:
        return "unknown"
    return gpus


def summary(nodes: Iterable[tuple[str, Cure]]) -> dict[str, Any]:
    """The number of refusing nodes by verdict, and a few of those whose kind helps, or may help."""
    found = list(nodes)
    counts = Counter(cure for _, cure in found)
    best: Cure = "curable" if counts["curable"] else "unknown"
    return {cure: counts[cure] for cure in CURES} | {"like": [name for name, cure in found if cure == best]}


def new_node_in_words(verdicts: Mapping[str, Any]) -> str:
    """The sentence for a `summary`."""
    if not (verdicts["curable"] or verdicts["unknown"]):
        return "No node of these kinds ever takes the pod."
    # Of many nodes, `like` has the first ones only.
    named = verdicts["like"][:_NAMED]
    more = (verdicts["curable"] or verdicts["unknown"]) - len(named)
    kinds = listed([*named, f"{more} more"] if more else named, "or")
    if verdicts["curable"]:
        return f"A new node of the kind of {kinds} would take the pod."
    return f"Whether a new node of the kind of {kinds} would take the pod is not known."
