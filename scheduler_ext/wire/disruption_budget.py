"""PodDisruptionBudgets ``policy/v1``: how many of the selected pods may be disrupted now."""

from __future__ import annotations

from msgspec import Raw

from scheduler_ext.core.preemption.disruption import Budget, Selector
from scheduler_ext.wire import kube
from scheduler_ext.wire.kube import requirements


class LabelSelector(kube.KubeStruct):
    """Kubernetes' LabelSelector."""

    match_labels: kube.Strings | None = None
    match_expressions: list[kube.Requirement] | None = None


class PodDisruptionBudgetSpec(kube.KubeStruct):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(kube.KubeStruct):
    disruptions_allowed: kube.Int32 | None = None
    disrupted_pods: dict[str, Raw] | None = None


class PodDisruptionBudget(kube.KubeStruct):
    metadata: kube.ObjectMeta | None = None
    spec: PodDisruptionBudgetSpec | None = None
    status: PodDisruptionBudgetStatus | None = None


def budget(read: PodDisruptionBudget) -> Budget:
    """The disruptions that are allowed; none before the controller has written the status."""
    metadata, status = read.metadata or kube.ObjectMeta(), read.status or PodDisruptionBudgetStatus()
    selector = read.spec.selector if read.spec is not None else None
    return Budget(
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        selector=_selector(selector) if selector is not None else None,
        allowed=status.disruptions_allowed or 0,
        disrupted=frozenset(status.disrupted_pods or ()),
    )


def _selector(selector: LabelSelector) -> Selector:
    # A null value is an empty one, as in Go: without it the selector would match more pods than it should.
    labels = {key: value or "" for key, value in (selector.match_labels or {}).items()}
    return Selector(labels, requirements(selector.match_expressions))
