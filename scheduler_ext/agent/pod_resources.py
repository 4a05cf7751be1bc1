"""Device ids held by each container, from the kubelet's PodResources API. The API is optional: without its
socket the agent reports the rest, and uses the API as soon as the socket appears. Source:
k8s.io/kubelet/pkg/apis/podresources/v1, and the kubelet's rate limit in pkg/kubelet/apis/podresources."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import quote

import grpc
from google.protobuf.message import DecodeError

from scheduler_ext.agent.pod_resources_pb2 import (
    AllocatableResourcesResponse,
    ContainerDevices,
    ListPodResourcesResponse,
)

DEADLINE_S = 2.0
# An answer of this age is better than none; an older one would hold GPUs for pods that ended long ago.
KEEP_S = 60.0
# Only plugins change what they offer, and a restarted kubelet knows nothing until each plugin has registered.
# A plugin that fails is restarted after five minutes at most: one that is silent for longer is gone.
KEEP_OFFERED_S = 600.0
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0
# The kubelet's own clients accept answers of this size.
MAX_ANSWER_BYTES = 16 * 2**20
# Other resources are ignored: other plugins number their devices as they like, and "0" would look like a GPU.
RESOURCE_PREFIX = "nvidia.com/"

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    # Otherwise a new channel may share the connection, and the back-off, of the last one.
    ("grpc.use_local_subchannel_pool", 1),
    # The kubelet's HTTP/2 server does not accept the path of the socket as authority.
    ("grpc.default_authority", "localhost"),
)

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, order=True)
class Allocation:
    """Device ids that a container was given under one resource name, sorted."""

    namespace: str
    pod: str
    container: str
    resource: str
    device_ids: tuple[str, ...]


@dataclass(eq=False)
class _PodResourcesError(Exception):
    """A failure of the socket or of a method; if `final`, no earlier answer may be used instead."""

    problem: str
    detail: str | None = None
    of_socket: bool = False
    final: bool = False


@dataclass(slots=True)
class _Question(Generic[_T]):
    """A method of the API, how its answer is read, and the last good answer, which is used for `keep_s`.
    `empty_counts` is whether an empty answer counts as an answer."""

    method: str
    parse: Callable[[bytes], _T]
    keep_s: float
    empty_counts: bool
    last: _T | None = None
    answered_at: float = 0.0
    # The kubelet counts requests, and may refuse one method while it answers another.
    wait_s: float = 0.0
    wait_until: float = 0.0

    def kept(self, now: float) -> _T | None:
        return self.last if now - self.answered_at < self.keep_s else None


class PodResources:
    """The API behind one unix socket; for one thread, which no call holds for more than 2 s. `clock` gives
    seconds that never go back. Nothing raises: an unknown answer is None. While the kubelet is busy or
    restarts, its last answer is used: for 60 s for held devices, for 600 s for offered ones. Changes are
    logged once."""

    def __init__(
        self, socket: Path, *, clock: Callable[[], float] = time.monotonic, deadline_s: float = DEADLINE_S
    ) -> None:
        self._socket = socket.absolute()
        self._clock = clock
        self._deadline_s = deadline_s
        self._problems: dict[str, str] = {}
        self._list = _Question("List", _allocations, KEEP_S, True)
        self._allocatable = _Question("GetAllocatableResources", _allocatable, KEEP_OFFERED_S, False)

    def read(self) -> tuple[Allocation, ...] | None:
        """The devices that all containers of the node hold, sorted; None if unknown."""
        return self._ask(self._list)

    def allocatable(self) -> Mapping[str, tuple[str, ...]] | None:
        """The device ids that plugins offer, by resource name, sorted; None if unknown."""
        return self._ask(self._allocatable)

    def _ask(self, question: _Question[_T]) -> _T | None:
        now = self._clock()
        try:
            if now < question.wait_until:
                return question.kept(now)
            answer = question.parse(self._call(question))
        except DecodeError:
            self._failed(question, _PodResourcesError("its answer cannot be decoded", final=True))
        except _PodResourcesError as unanswered:
            self._failed(question, unanswered)
        else:
            question.wait_s = 0.0
            for subject in (str(self._socket), question.method):
                if self._problems.pop(subject, None) is not None:
                    _log.info("kubelet's PodResources: %s: answers again", subject)
            if answer or question.empty_counts or question.kept(now) is None:
                question.last, question.answered_at = answer, now
        return question.kept(now)

    def _call(self, question: _Question[_T]) -> bytes:
        """The bytes of an answer. Raises _PodResourcesError."""
        try:
            self._socket.stat()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise _PodResourcesError(f"cannot be opened: {reason}", of_socket=True) from None
        try:
            # A kept channel would wait longer and longer before it tries a restarted kubelet again; a new one
            # costs half a millisecond.
            with grpc.insecure_channel(f"unix://{quote(str(self._socket))}", options=_OPTIONS) as channel:
                method = channel.unary_unary(
                    f"/v1.PodResourcesLister/{question.method}",
                    request_serializer=bytes,
                    response_deserializer=bytes,
                )
                return method(b"", timeout=self._deadline_s)
        except grpc.RpcError as error:
            code, detail = error.code(), error.details()
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            question.wait_s = min(LONGEST_WAIT_S, 2 * question.wait_s or FIRST_WAIT_S)
            question.wait_until = self._clock() + question.wait_s
            raise _PodResourcesError("too many requests, or too large an answer", detail)
        if code in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.PERMISSION_DENIED):
            raise _PodResourcesError("not offered here", detail, final=True)
        if code is grpc.StatusCode.UNAVAILABLE:
            raise _PodResourcesError("no answer", detail, of_socket=True)
        raise _PodResourcesError(f"fails with {code.name}", detail)

    def _failed(self, question: _Question[_T], unanswered: _PodResourcesError) -> None:
        if unanswered.final:
            question.last = None
        subject = str(self._socket) if unanswered.of_socket else question.method
        if self._problems.get(subject) != unanswered.problem:
            self._problems[subject] = unanswered.problem
            detail = f" ({unanswered.detail})" if unanswered.detail else ""
            _log.warning("kubelet's PodResources: %s: %s%s", subject, unanswered.problem, detail)


def _allocations(answer: bytes) -> tuple[Allocation, ...]:
    found = {
        Allocation(pod.namespace, pod.name, container.name, resource, ids)
        for pod in ListPodResourcesResponse.FromString(answer).pod_resources
        for container in pod.containers
        for resource, ids in _ids(container.devices).items()
        if ids
    }
    return tuple(sorted(found))


def _allocatable(answer: bytes) -> Mapping[str, tuple[str, ...]]:
    return _ids(AllocatableResourcesResponse.FromString(answer).devices)


def _ids(devices: Iterable[ContainerDevices]) -> dict[str, tuple[str, ...]]:
    """Sorted ids by resource name; the kubelet writes an entry per device and NUMA node."""
    ids: dict[str, set[str]] = {}
    for entry in devices:
        if entry.resource_name.startswith(RESOURCE_PREFIX):
            ids.setdefault(entry.resource_name, set()).update(entry.device_ids)
    return {resource: tuple(sorted(each)) for resource, each in sorted(ids.items())}
