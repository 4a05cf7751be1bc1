"""Lists and watches of Kubernetes' API: pages and events as typed objects, one broken object at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.decoding import explained
from scheduler_ext.wire.kube import Header, KubeStruct, ObjectMeta, Status, read_status

T = TypeVar("T")
EXPIRED = 410
_HEADER = msgspec.json.Decoder(Header)


class ListMeta(KubeStruct):
    resource_version: str | None = None
    next: str | None = msgspec.field(default=None, name="continue")


class _Page(Struct, Generic[T]):
    metadata: ListMeta | None = None
    items: list[T] | None = None


class _Event(Struct):
    type: str = ""
    object: Raw = Raw(b"{}")


@dataclass(frozen=True, slots=True)
class Broken:
    """An unreadable object and the problem; `name` is NAMESPACE/NAME if it has one."""

    name: str
    uid: str
    problem: str


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """A part of a list; `next` is the token of the page after it, "" after the last."""

    items: list[T]
    broken: list[Broken]
    resource_version: str
    next: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """A change: `kind` is ADDED, MODIFIED, DELETED, BOOKMARK (no object) or ERROR (a status)."""

    kind: str
    resource_version: str
    object: T | Broken | Status | None


class Decoder(Generic[T]):
    """Reads lists and watches of one type."""

    def __init__(self, kind: type[T]) -> None:
        self._object = msgspec.json.Decoder(kind)
        self._page = msgspec.json.Decoder(_Page[kind])  # type: ignore[valid-type]
        self._raw_page = msgspec.json.Decoder(_Page[Raw])
        self._event = msgspec.json.Decoder(_Event)

    def page(self, body: bytes) -> ListPage[T]:
        """A page of a list. Raises ClusterError for anything else."""
        read: Sequence[T | Broken]
        try:
            try:
                page = self._page.decode(body)
                read = page.items or []
            except msgspec.ValidationError:
                page = self._raw_page.decode(body)
                read = [self._read(raw) for raw in page.items or ()]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ClusterError(f"not a readable list: {error}") from None
        metadata = page.metadata or ListMeta()
        items = [each for each in read if not isinstance(each, Broken)]
        broken = [each for each in read if isinstance(each, Broken)]
        return ListPage(items, broken, metadata.resource_version or "", metadata.next or "")

    def event(self, line: bytes) -> WatchEvent[T]:
        """One line of a watch. Raises ClusterError for anything else."""
        try:
            event = self._event.decode(line)
            if event.type == "ERROR":
                return WatchEvent(event.type, "", read_status(bytes(event.object)))
            metadata = _HEADER.decode(event.object).metadata
            version = (metadata.resource_version if metadata else None) or ""
            return WatchEvent(
                event.type, version, None if event.type == "BOOKMARK" else self._read(event.object)
            )
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ClusterError(f"not a readable watch event: {error}") from None

    def _read(self, raw: Raw) -> T | Broken:
        try:
            return self._object.decode(raw)
        except msgspec.ValidationError as error:
            metadata = _HEADER.decode(raw).metadata or ObjectMeta()
            prefix = f"{metadata.namespace}/" if metadata.namespace else ""
            return Broken(f"{prefix}{metadata.name or '?'}", metadata.uid or "", explained(error))
