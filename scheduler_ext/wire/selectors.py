"""Selectors of labels, and the PodDisruptionBudgets that have one, as the values that decisions read."""

from msgspec import Raw

from scheduler_ext.core import intree
from scheduler_ext.core.preemption.disruption import Budget, PodSelector
from scheduler_ext.wire.kube import Int32, KubeStruct, ObjectMeta, RequirementObject, Strings


class LabelSelector(KubeStruct):
    """Kubernetes' LabelSelector."""

    match_labels: Strings | None = None
    match_expressions: list[RequirementObject] | None = None


class PodDisruptionBudgetSpec(KubeStruct):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(KubeStruct):
    disruptions_allowed: Int32 | None = None
    disrupted_pods: dict[str, Raw] | None = None


class PodDisruptionBudget(KubeStruct):
    metadata: ObjectMeta | None = None
    spec: PodDisruptionBudgetSpec | None = None
    status: PodDisruptionBudgetStatus | None = None


def requirements(entries: list[RequirementObject] | None) -> tuple[intree.Requirement, ...]:
    """The requirements of a selector, as core values."""
    return tuple(
        intree.Requirement(each.key or "", each.operator or "", tuple(each.values or ()))
        for each in entries or ()
    )


def budget(read: PodDisruptionBudget) -> Budget:
    """The disruptions that are allowed; none before the controller has written the status."""
    metadata, status = read.metadata or ObjectMeta(), read.status or PodDisruptionBudgetStatus()
    found = read.spec.selector if read.spec is not None else None
    selector = None
    if found is not None:
        # A null value is an empty one, as in Go: without it the selector would match too many pods.
        labels = {key: value or "" for key, value in (found.match_labels or {}).items()}
        selector = PodSelector(labels, requirements(found.match_expressions))
    return Budget(
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        selector=selector,
        allowed=status.disruptions_allowed or 0,
        disrupted=frozenset(status.disrupted_pods or ()),
    )
