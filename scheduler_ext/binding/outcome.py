"""How a call to the API server ended, as far as promises of GPU memory depend on it. After `Unknown`
nothing is certain: the API server may have done it, may still do it, or never will. Only reading the object
shows it."""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from scheduler_ext.wire import kube
from scheduler_ext.wire.watching import Broken

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListedPods:
    """The unfinished pods of a node at one version; `broken` pods are on the node and cannot be read."""

    pods: list[kube.Pod]
    broken: list[Broken]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The API server did it, and answered `value`."""

    value: T


@dataclass(frozen=True, slots=True)
class Refused:
    """The API server did not do it, and will not; `retry_after_s` is the pause it asks for."""

    status: int
    message: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request was sent, and no conclusive answer came."""

    message: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unsent:
    """The request was not sent, for example because no time was left."""

    message: str


Outcome: TypeAlias = Done[T] | Refused | Unknown | Unsent
