"""DeviceTaintRules: those of a cluster, and those that this product writes."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from scheduler_ext.core.dra.device_taints import DeviceTaint
from scheduler_ext.core.dra.published import TaintRule
from scheduler_ext.wire import kube
from scheduler_ext.wire.dra.resource_api import GROUP, DeviceTaintObject, taint_of
from scheduler_ext.wire.kube import KubeStruct, strings

# On the rules of this product.
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_MANAGER: Final = "gpu-scheduler-extender"


class _TaintSelector(KubeStruct):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    # In v1alpha3 only.
    device_class_name: str | None = None
    selectors: list[Raw] | None = None


class _RuleSpec(KubeStruct):
    device_selector: _TaintSelector | None = None
    taint: DeviceTaintObject | None = None


class RuleObject(KubeStruct):
    metadata: kube.ObjectMeta | None = None
    spec: _RuleSpec | None = None


def read_rule(item: RuleObject) -> TaintRule:
    """A DeviceTaintRule; without a selector it is about no device. One that selects by class or expressions,
    which v1alpha3 allowed, may be about any device of its driver and pool."""
    metadata, spec = item.metadata or kube.ObjectMeta(), item.spec or _RuleSpec()
    selector = spec.device_selector or _TaintSelector()
    return TaintRule(
        name=metadata.name or "",
        taint=taint_of(spec.taint or DeviceTaintObject()),
        driver=selector.driver,
        pool=selector.pool,
        device=selector.device,
        is_empty=spec.device_selector is None,
        uid=metadata.uid or "",
        ours=strings(metadata.labels).get(_MANAGED_BY) == _MANAGER,
    )


def taint_rule_body(path: str, taint: DeviceTaint) -> dict[str, Any]:
    """The DeviceTaintRule of a taint, to be created at this path. It evicts nothing."""
    driver, pool, device = taint.device
    return {
        "apiVersion": f"{GROUP}/{path.split('/')[-2]}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": taint.rule, "labels": {_MANAGED_BY: _MANAGER}},
        "spec": {
            "deviceSelector": {"driver": driver, "pool": pool, "device": device},
            "taint": {"key": taint.key, "effect": "NoSchedule"},
        },
    }
