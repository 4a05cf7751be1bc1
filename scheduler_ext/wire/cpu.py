"""CPU amounts in thousandths of a core, read quickly, because nothing else of most pods matters here. These
amounts only influence scores, so an unreadable one counts as 0 and raises no error."""

import math
from functools import lru_cache

import msgspec

from scheduler_ext.core.node.node import UNLIMITED
from scheduler_ext.core.request.quantity import QuantityError, parse_quantity
from scheduler_ext.wire import kube
from scheduler_ext.wire.kube import quantity_text

_CPU = "cpu"
# Sums are in billionths, Kubernetes' finest quantity, because whole numbers add up exactly.
_NANO = 10**9
_NANO_PER_MILLI = 10**6


def pod_cpu_milli(spec: kube.PodSpec) -> int:
    """The effective CPU request of a pod, rounded up, as in `wire.pod.pod_amounts`."""
    sidecars = peak = 0
    for container in filter(None, spec.init_containers or ()):
        nano = _asked_nano(container.resources) or 0
        if container.restart_policy == "Always":
            sidecars += nano
        else:
            peak = max(peak, sidecars + nano)
    apps = sum(_asked_nano(container.resources) or 0 for container in filter(None, spec.containers or ()))
    of_pod = _asked_nano(spec.resources)
    nano = max(peak, sidecars + apps) if of_pod is None else of_pod
    return min(UNLIMITED, -(-(nano + (_nano_of(spec.overhead) or 0)) // _NANO_PER_MILLI))


def allocatable_cpu_milli(amounts: kube.Quantities | None) -> int | None:
    """The CPU of a node, rounded down; None if it cannot be read."""
    nano = _nano_of(amounts)
    return min(UNLIMITED, nano // _NANO_PER_MILLI) if nano is not None else None


def _asked_nano(asked: kube.ResourceRequirements | None) -> int | None:
    """The request, or the limit in its place as in the API server; None without either."""
    for amounts in (asked.requests, asked.limits) if asked is not None else ():
        if amounts and _CPU in amounts:
            return _nano_of(amounts) or 0
    return None


def _nano_of(amounts: kube.Quantities | None) -> int | None:
    raw = amounts.get(_CPU) if amounts else None
    return _nano(bytes(raw)) if raw is not None else None


@lru_cache(maxsize=4096)  # tens of thousands of pods request the same few amounts
def _nano(raw: bytes) -> int | None:
    try:
        value = parse_quantity(quantity_text(msgspec.Raw(raw)))
    except QuantityError:
        return None
    return min(max(0, math.ceil(value * _NANO)), UNLIMITED * _NANO_PER_MILLI)
