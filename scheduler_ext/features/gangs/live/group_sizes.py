"""The objects of other projects that say how many pods a gang has: read one by one when a pod names them,
and remembered for a while."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from scheduler_ext.cluster.client.transport import RefusedError, Transport
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire import kube
from scheduler_ext.wire.gang_groups import declared_group
from scheduler_ext.wire.gangs import DeclaredGroup, GroupKey

log = logging.getLogger(__name__)

_CALL_S = 2.0
# How long an answer holds, and how long a refusal does.
_KNOWN_S, _UNKNOWN_S = 60.0, 15.0
# Objects of one look. Gangs whose objects are read later are planned later.
_MOST = 10
# After a failure of the server; an object that fails again and again waits twice as long each time.
_RETRY_S, _LONGEST_RETRY_S = 2.0, 60.0
# The answers that are kept.
_KEPT = 5000

_JOBS = ("JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
_VERSIONS = {
    "PodGroup": ("scheduling.k8s.io", "podgroups", ("v1beta1", "v1alpha3", "v1alpha2", "v1alpha1")),
    "coscheduling PodGroup": ("scheduling.x-k8s.io", "podgroups", ("v1alpha1",)),
    "JobSet": ("jobset.x-k8s.io", "jobsets", ("v1alpha2",)),
    "training job": ("kubeflow.org", "", ("v1", "v2beta1")),
}


class UnknownYetError(LookupError):
    """The object of a group has not been read yet."""


@dataclass(slots=True)
class _ReadGroup:
    group: DeclaredGroup | None
    until: float


@dataclass(slots=True)
class _FailedRead:
    pause_s: float
    until: float


class GroupSizes:
    """For one thread. `look` begins a look, in which some more objects may be read."""

    def __init__(self, transport: Transport, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._monotonic = monotonic
        self._answers: dict[GroupKey, _ReadGroup] = {}
        self._failures: dict[GroupKey, _FailedRead] = {}
        self._left = _MOST
        self._not_before = 0.0
        # Whether an answer is still to come.
        self.unread = False

    def look(self) -> None:
        """Begin a look."""
        self._left, self.unread = _MOST, False
        if len(self._answers) > _KEPT:
            self._answers.clear()
        if len(self._failures) > _KEPT:
            self._failures.clear()

    def of(self, pod: kube.Pod) -> Callable[[GroupKey], DeclaredGroup | None]:
        """The objects of groups, for this pod. Raises UnknownYetError for one that is read in a later
        look."""
        owners = (pod.metadata.owner_references if pod.metadata is not None else None) or ()
        kinds = [owner.kind for owner in owners if owner.kind in _JOBS]
        return lambda group: self._declared(group, kinds[0] if kinds else None)

    def _declared(self, group: GroupKey, kind: str | None) -> DeclaredGroup | None:
        if group.kind not in _VERSIONS:
            return None
        known, now = self._answers.get(group), self._monotonic()
        if known is not None and now < known.until:
            return known.group
        failure = self._failures.get(group)
        if self._left <= 0 or now < max(self._not_before, failure.until if failure else 0.0):
            return self._later(known)
        self._left -= 1
        try:
            found = self._read(group, kind)
        except ClusterError as error:
            log.warning("the %s %s/%s is not read, trying again: %s", *group, error)
            now = self._monotonic()
            self._not_before = now + _RETRY_S
            pause_s = min(_LONGEST_RETRY_S, 2 * failure.pause_s) if failure else _RETRY_S
            self._failures[group] = _FailedRead(pause_s, now + pause_s)
            return self._later(known)
        self._failures.pop(group, None)
        declared = _size_in(found)
        held_s = _KNOWN_S if declared is not None else _UNKNOWN_S
        self._answers[group] = _ReadGroup(declared, self._monotonic() + held_s)
        return declared

    def _later(self, known: _ReadGroup | None) -> DeclaredGroup | None:
        """The last answer, which is better than none."""
        self.unread = True
        if known is None:
            raise UnknownYetError
        return known.group

    def _read(self, group: GroupKey, kind: str | None) -> dict[str, Any] | None:
        """The object, in the first version that the server knows; None where it may not be read, or is not
        there. Raises ClusterError."""
        api_group, resource, versions = _VERSIONS[group.kind]
        resources: Sequence[str] = (resource,)
        if group.kind == "training job":
            resources = [f"{each.lower()}s" for each in ((kind,) if kind is not None else _JOBS)]
        for version in versions:
            for each in resources:
                within = f"/apis/{api_group}/{version}/namespaces/{quote(group.namespace)}"
                path = f"{within}/{each}/{quote(group.name)}"
                try:
                    return self._transport.json(path, timeout_s=_CALL_S)
                except RefusedError as error:
                    if error.status not in (403, 404):
                        raise
        return None


def _size_in(found: dict[str, Any] | None) -> DeclaredGroup | None:
    declared = declared_group(found) if found is not None else None
    return declared[1] if declared is not None else None
