"""An object in the store: its bytes, once, and the few fields that selectors need."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tests.cluster.api.api_status import bad_request
from tests.kube_objects import Json


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of one object; `body` begins with the collection's `apiVersion` and `kind`."""

    name: str
    namespace: str | None
    version: int
    phase: str
    node_name: str
    body: bytes

    def object(self) -> Json:
        """The object, as a copy for the reader."""
        found: Json = msgspec.json.decode(self.body)
        return found


Match = Callable[[Entry], bool]

_FIELDS: dict[str, Callable[[Entry], str]] = {
    "metadata.name": lambda entry: entry.name,
    "metadata.namespace": lambda entry: entry.namespace or "",
    "status.phase": lambda entry: entry.phase,
    "spec.nodeName": lambda entry: entry.node_name,
}


def head_of(api_version: str, kind: str) -> bytes:
    return msgspec.json.encode({"apiVersion": api_version, "kind": kind})[:-1] + b","


def entry_of(head: bytes, found: Json, version: int) -> Entry:
    """An object's entry at a version; the object is neither kept nor changed."""
    metadata = found["metadata"] | {"resourceVersion": str(version)}
    rest = {"metadata": metadata} | {
        key: value for key, value in found.items() if key not in ("apiVersion", "kind", "metadata")
    }
    return Entry(
        metadata["name"],
        metadata.get("namespace"),
        version,
        (found.get("status") or {}).get("phase") or "",
        (found.get("spec") or {}).get("nodeName") or "",
        head + msgspec.json.encode(rest)[1:],
    )


def field_selector(text: str) -> list[Match]:
    """The conditions of a fieldSelector; raises ApiError 400 for an unknown field."""
    return [_condition(part) for part in text.split(",") if part]


def _condition(part: str) -> Match:
    negative = "!=" in part
    label, _, value = part.partition("!=" if negative else "=")
    value = value.removeprefix("=")
    field = _FIELDS.get(label)
    if field is None:
        raise bad_request(f"field label not supported: {label}")
    return lambda entry: (field(entry) == value) is not negative


def label_selector(text: str) -> list[Match]:
    """The condition that a label exists; raises ApiError 400 for any other."""
    if not re.fullmatch(r"[a-z0-9./-]*", text):
        raise bad_request("this server selects objects by the existence of one label")
    return [lambda entry: text in (entry.object()["metadata"].get("labels") or {})] if text else []


def all_of(conditions: list[Match]) -> Match:
    return lambda entry: all(condition(entry) for condition in conditions)
