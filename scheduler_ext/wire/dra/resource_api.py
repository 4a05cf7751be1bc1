"""The names and the common parts of the API group `resource.k8s.io`. An unreadable amount of a device counts
as absent, because one device must not hide a cluster's others."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from msgspec import Raw

from scheduler_ext.core.intree.affinity import Taint
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.wire.decoding import decode_answer
from scheduler_ext.wire.kube import KubeStruct, quantity_text

GROUP: Final = "resource.k8s.io"
CLASSES: Final = "deviceclasses"
SLICES: Final = "resourceslices"
CLAIMS: Final = "resourceclaims"
RULES: Final = "devicetaintrules"
# The versions whose objects are read from files, the newest first (k8s.io/api/resource).
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
# The versions that may have DeviceTaintRules, the newest first: v1 from 1.37 on, v1beta2 before.
RULE_VERSIONS: Final = ("v1", "v1beta2")


class _Resource(KubeStruct):
    name: str | None = None


class _Resources(KubeStruct):
    resources: list[_Resource] | None = None


def read_resources(body: bytes) -> set[str]:
    """The names of the resources in an answer to discovery, a list of API resources. Raises ClusterError."""
    return {each.name or "" for each in decode_answer(_Resources, body).resources or ()}


class _Version(KubeStruct):
    version: str | None = None


class _Group(KubeStruct):
    versions: list[_Version] | None = None


def read_versions(body: bytes) -> list[str]:
    """The versions in an answer to discovery, an API group. Raises ClusterError."""
    return [each.version or "" for each in decode_answer(_Group, body).versions or ()]


class _Cel(KubeStruct):
    expression: str | None = None


class SelectorObject(KubeStruct):
    cel: _Cel | None = None


def expressions(selectors: Iterable[SelectorObject] | None) -> tuple[str, ...]:
    """The CEL expressions of selectors."""
    return tuple((each.cel or _Cel()).expression or "" for each in selectors or ())


class DeviceTaintObject(KubeStruct):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


def taint_of(taint: DeviceTaintObject) -> Taint:
    """A taint of a device."""
    return Taint(taint.key or "", taint.value or "", taint.effect or "")


def amount_text(raw: Raw) -> str | None:
    """A quantity as text; None for another type."""
    with suppress(QuantityError):
        return quantity_text(raw)
    return None
