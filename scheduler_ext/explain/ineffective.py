"""Warnings about settings of a pod that have no effect, or that are not compared."""

from collections.abc import Sequence
from difflib import get_close_matches

from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.node.node_labels import VALUE_LABEL, stated_value, value_text
from scheduler_ext.core.request import wishes
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.explain.sentences import expected_name
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire import kube
from scheduler_ext.wire.gangs import unreadable_max_duration
from scheduler_ext.wire.held_annotation import HELD_ANNOTATION
from scheduler_ext.wire.pod.pod_claims import claim_names
from scheduler_ext.wire.pod.pod_identity import pod_priority
from scheduler_ext.wire.pod.pod_request import resource_names


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
    found += shortened(_held_rooms(pod, state))
    bad = {name: text for name, text in texts.items() if text is not None and not stated_value(text)}
    if bad:
        first = next(iter(bad))
        which = first + (f" and {len(bad) - 1} more" if len(bad) > 1 else "")
        text = wishes.shown(bad[first])
        found.append(f"{VALUE_LABEL} of {which}: {text} is no price such as 2.5, so the model's counts")
    return found


def held_room(node: str, room: BoundPod) -> str:
    """The sentence about a room that a defragmentation holds."""
    return (
        f"a defragmentation holds room on {node} for {expected_name(room)} (annotation {HELD_ANNOTATION} of "
        "its GPUNode), as if a pod had it"
    )


def _held_rooms(pod: kube.Pod, state: ClusterState) -> list[str]:
    """The rooms that a defragmentation holds against the pod."""
    uid, priority = state.waiting_uid(pod), pod_priority(pod)
    return [
        held_room(node, each)
        for node, pods in sorted(state.held.items())
        for each in pods
        if each.priority >= priority and (not uid or each.uid != uid)
    ]


def shortened(problems: Sequence[str], most: int = 3) -> list[str]:
    """The first of many problems, and the number of the others."""
    others = len(problems) - most
    return [*problems[:most], *([f"and {others} more of this kind"] if others > 0 else [])]


def pod_warnings(pod: kube.Pod, request: GpuRequest | InvalidRequest, resources: ResourceNames) -> list[str]:
    """Settings of the pod that have no effect."""
    found = misspellings(pod, resources)
    if (problem := unreadable_max_duration(pod)) is not None:
        found.append(f"{problem}; it counts as not set")
    if isinstance(request, GpuRequest) and not request.asks_gpu:
        annotations = kube.strings(pod.metadata.annotations) if pod.metadata else {}
        asked = [key for key in annotations if key.startswith(wishes.ANNOTATION_PREFIX)]
        text = "the pod asks no GPU resource, so every node is fine"
        if claim_names(pod):
            # Claims bind it to nodes.
            text = "the pod's claims hold their devices already, or ask no GPU"
            found += [f"{text}: its annotations do nothing"] if asked else []
        else:
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
