"""One pod in full, as the page shows it: where it is and what it holds, or why it waits."""

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.in_words import devices, nearest_miss, why_in_words
from scheduler_ext.explain.kube_verdicts import NOT_OFFERED
from scheduler_ext.views.placed_pods import placed_pods, placed_row

_SHOWN = "node", "verdict", "model", "gpus", "freeGpus", "score"
# kube-scheduler's own reasons, as far as the extender does not compute them, are in the pod's events only.
_MEANINGS = {
    NOT_OFFERED: "kube-scheduler applies its own filters first: such a node usually has too few free GPUs by "
    "its count, a taint, or labels that do not match. That is no fault of the node. The pod's events have "
    "kube-scheduler's reasons:"
}


def pod_view(
    answer: Mapping[str, Any], snapshot: Snapshot | None, pending: Sequence[PendingPod], most: int
) -> dict[str, Any]:
    """The pod of an Explanation as plain JSON values, with the words of `why`, and with at most so many of
    its nodes. `answer` has all nodes: its words count them."""
    namespace, name, bound_to = answer["pod"]["namespace"], answer["pod"]["name"], answer["boundTo"]
    words, nodes = why_in_words(answer), answer["nodes"]
    # Reasons of single nodes explain a pod that waits; one with a node fits at least there.
    refused = words.refused and not answer["invalid"]
    return {
        "namespace": namespace,
        "name": name,
        "gone": answer["gone"],
        "asks": answer["asks"],
        "invalid": answer["invalid"],
        "verdict": words.verdict,
        "notes": [*words.notes, *words.not_modelled],
        "counts": answer["counts"] if refused else {},
        "meanings": {each: text for each, text in _MEANINGS.items() if each in answer["counts"]},
        "nearest": answer["nearest"] if refused else None,
        "advice": answer["advice"] if refused else [],
        "kubeScheduler": words.kube_scheduler,
        "decisions": words.decisions,
        "nodes": [_node(each, bound_to) for each in nodes[:most]],
        "nodesLeftOut": max(0, len(nodes) - most),
        "placed": _placed(namespace, name, bound_to, snapshot),
        "waiting": _waiting(namespace, name, pending),
    }


def _node(entry: Mapping[str, Any], bound_to: str | None) -> dict[str, Any]:
    return {key: entry[key] for key in _SHOWN} | {
        "here": entry["node"] == bound_to,
        "says": entry["reason"] or devices(entry["devices"]),
        "miss": nearest_miss(entry),
    }


def _placed(
    namespace: str, name: str, bound_to: str | None, snapshot: Snapshot | None
) -> dict[str, Any] | None:
    node = snapshot.nodes.get(bound_to or "") if snapshot is not None else None
    if node is None:
        return None
    for placed in placed_pods(node):
        if (placed.pod.namespace, placed.pod.name) == (namespace, name):
            return placed_row(placed, node.info)
    return None


def _waiting(namespace: str, name: str, pending: Sequence[PendingPod]) -> dict[str, Any] | None:
    for each in pending:
        if (each.pod.namespace, each.pod.name) == (namespace, name):
            return {
                "priority": each.pod.priority,
                "since": each.pod.created_at,
                "nominated": each.nominated_node,
            }
    return None
