"""Warnings about settings of a pod that have no effect, or that are not compared."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.node_labels import VALUE_LABEL, stated_value, value_text
from scheduler_ext.core.request.constraints import (
    ANNOTATION_PREFIX,
    meant_annotation,
    resource_hint,
    shown,
    spelling_hint,
    unknown_annotations,
)
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest, refused_amounts
from scheduler_ext.core.request.resource_names import ResourceNames, shown_resource
from scheduler_ext.explain.sentences import BEING_DELETED, ENDED, expected_name, listed, nodes_in_words
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gangs import unreadable_gang, unreadable_max_duration
from scheduler_ext.wire.held_annotation import HELD_ANNOTATION
from scheduler_ext.wire.kube import quantity_text
from scheduler_ext.wire.pod.pod_amounts import all_containers
from scheduler_ext.wire.pod.pod_claims import claim_names
from scheduler_ext.wire.pod.pod_identity import is_finished, is_terminating, pod_priority
from scheduler_ext.wire.pod.pod_request import asks_gpu, resource_names

_NAMED = 6
_DEFAULT_SCHEDULER = "default-scheduler"


def warnings(
    pod: kube.Pod, request: GpuRequest | InvalidRequest, state: ClusterState, resources: ResourceNames
) -> list[str]:
    """Settings of the pod that have no effect, or that are not compared here."""
    found = [*pod_warnings(pod, request, resources, state.infos.values()), *gang_warnings(pod)]
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
        text = shown(bad[first])
        found.append(f"{VALUE_LABEL} of {which}: {text} is no price such as 2.5, so the model's counts")
    return found


def gang_warnings(pod: kube.Pod) -> list[str]:
    """That the gang of a pod cannot start, by what the pod itself says; the pod has its labels."""
    problem = unreadable_gang(pod)
    return [] if problem is None else [f"its gang cannot start: {problem}"]


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


def pod_warnings(
    pod: kube.Pod,
    request: GpuRequest | InvalidRequest,
    resources: ResourceNames,
    nodes: Iterable[NodeInfo] = (),
) -> list[str]:
    """That the pod is being deleted or has ended, and settings of it that have no effect; `nodes` are those
    of the cluster."""
    found = [ENDED] if is_finished(pod) else [BEING_DELETED] if is_terminating(pod) else []
    found += misspellings(pod, resources, nodes)
    if (problem := unreadable_max_duration(pod)) is not None:
        found.append(f"{problem}; it counts as not set")
    names = resource_names(pod.spec or kube.PodSpec())
    looks_so = bool(_pod_level(pod, resources)) or any(map(resources.looks_like_gpu, names))
    if isinstance(request, GpuRequest) and not request.asks_gpu and not looks_so:
        annotations = kube.strings(pod.metadata.annotations) if pod.metadata else {}
        asked = [key for key in annotations if key.startswith(ANNOTATION_PREFIX)]
        text = "the pod asks no GPU resource, so this extender refuses no node"
        if devices := [name for name in names if "/" in name]:
            text += f"; only kube-scheduler counts {listed(devices, 'and', _NAMED)}"
        if claim_names(pod):
            # Claims bind it to nodes.
            text = "the pod's claims hold their devices already, or ask no GPU"
            found += [f"{text}: its annotations do nothing"] if asked else []
        else:
            found.append(f"{text}; its annotations do nothing" if asked else text)
    return found


def unserved(pod: kube.Pod, config: Configuration) -> list[str]:
    """A note on a pod to be created whose scheduler does not ask the extender. Without a name the API server
    sets that of kube-scheduler's default profile (k8s.io/api/core/v1, DefaultSchedulerName)."""
    spec = pod.spec or kube.PodSpec()
    name, ours = spec.scheduler_name or _DEFAULT_SCHEDULER, config.scheduler_names
    if name in ours or not (asks_gpu(spec, config.resource_names()) or spec.resource_claims):
        return []
    scheduler = (
        f"its schedulerName is {name}"
        if spec.scheduler_name
        else f"it has no schedulerName, so {name} places it"
    )
    return [
        f"{scheduler}, which does not ask this extender: the answer holds for schedulerName: "
        f"{' or '.join(ours)}"
    ]


def _pod_level(pod: kube.Pod, resources: ResourceNames) -> list[str]:
    """GPUs in spec.resources, where only cpu, memory and huge pages may be (KEP-2837; component-helpers,
    resource/helpers.go, supportedPodLevelResources)."""
    asked = (pod.spec.resources if pod.spec is not None else None) or kube.ResourceRequirements()
    names = dict.fromkeys((*(asked.limits or ()), *(asked.requests or ())))
    return [
        f"spec.resources asks {name} for the whole pod: Kubernetes allows only cpu, memory and huge pages "
        "there, refuses the pod or ignores it, and no container gets a GPU by it; ask it in a container's "
        "resources.limits"
        for name in names
        if resources.is_gpu(name) or resources.looks_like_gpu(name)
    ]


def _refused_amounts(pod: kube.Pod, resources: ResourceNames) -> Iterator[str]:
    """The amounts of other resources in the pod's containers that the API server refuses."""
    for container, _ in all_containers(pod.spec or kube.PodSpec()):
        asked = container.resources or kube.ResourceRequirements()
        limits = asked.limits or {}
        for name, raw in (asked.requests or {}).items():
            problem = None
            # Who reads the amounts says which of them cannot be read.
            with suppress(QuantityError):
                if not resources.is_gpu(name):
                    limit = quantity_text(limits[name]) if name in limits else None
                    problem = refused_amounts(name, quantity_text(raw), limit)
            if problem is not None:
                yield f"container {shown(container.name or '')}: {shown(name)}: {problem}"


def misspellings(pod: kube.Pod, resources: ResourceNames, nodes: Iterable[NodeInfo]) -> list[str]:
    """Annotations and resources of the pod that look like ones of this extender and have no effect, resources
    that only kube-scheduler counts on these `nodes`, and amounts that the API server refuses."""
    annotations = kube.strings(pod.metadata.annotations) if pod.metadata else {}
    found = [
        f"annotation {key}: unknown, does nothing{_meant(key, resources.share)}"
        for key in unknown_annotations(annotations)
    ]
    others = [name for name in resource_names(pod.spec or kube.PodSpec()) if not resources.is_gpu(name)]
    share = resources.share
    hints = [(f"annotation {name}", spelling_hint(name, share)) for name in sorted(annotations)]
    hints += [(f"resource {name}", resource_hint(name, share)) for name in others]
    found += [f"{what} has no effect in this extender; {hint}" for what, hint in hints if hint]
    uncounted = [each for each in others if resources.looks_like_gpu(each)]
    with_node = [info for info in nodes if info.allocatable is not None] if uncounted else []
    found += [*_pod_level(pod, resources), *_refused_amounts(pod, resources)]
    return found + [
        _uncounted(name, resources, with_node) for name in uncounted if not resource_hint(name, share)
    ]


def _uncounted(name: str, resources: ResourceNames, nodes: Sequence[NodeInfo]) -> str:
    """Who counts a resource that looks like GPUs, and what may be meant by it."""
    if "/" not in name:
        # k8s.io/kubernetes/pkg/apis/core/validation, ValidateContainerResourceName.
        meant = resources.meant_by(name)
        text = f"resource {name}: the API server refuses the pod, because names of devices have a domain"
        return f"{text}; did you mean {meant}?" if meant else f"{text}, such as {resources.whole[0]}"
    text = f"resource {name}: this extender does not count it, only kube-scheduler does"
    if there := sum(info.uncounted.get(name, 0) > 0 for info in nodes):
        have = f"{nodes_in_words(there)} {'has' if there == 1 else 'have'} it"
        return f"{text}; {have}: if these are GPUs, add it to resources.wholeGpu of the configuration"
    if nodes:
        text += "; no node has it in its allocatable"
    if meant := resources.meant_by(name):
        return f"{text}; did you mean {meant}?"
    offered = Counter(each for info in nodes for each, count in (info.allocatable or {}).items() if count > 0)
    names = [shown_resource(each) for each, _ in offered.most_common()]
    return f"{text}; the nodes' GPUs are {listed(names, 'or', _NAMED)}" if names else text


def _meant(key: str, share: str) -> str:
    """The annotation that the author may have meant, or where the resource of shares belongs."""
    if key == share:
        return "; it is a resource: ask it in a container's resources.limits"
    meant = meant_annotation(key)
    return f"; did you mean {meant}?" if meant is not None else ""
