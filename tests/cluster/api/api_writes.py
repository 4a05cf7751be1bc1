"""POST, PUT, PATCH and DELETE: enough of the API's rules for competing writers.

Simpler than the real thing: a status is written through `/status` alone, for every kind; server-side apply
owns the first level of spec, status, labels and annotations, conditions by type, and sees a conflict only
in a field of a pod's status that has another value and is not its own; a strategic merge patch counts as a
merge patch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.cluster.api.api_entry import Entry
from tests.cluster.api.api_paths import BUDGETS, PODS, Target
from tests.cluster.api.api_requests import Request
from tests.cluster.api.api_status import ApiError, bad_request
from tests.cluster.api.api_store import Store
from tests.kube_objects import Json

_MERGE = ("application/merge-patch+json", "application/strategic-merge-patch+json")
_APPLY = "application/apply-patch+yaml"
_JSON_PATCH = "application/json-patch+json"
_CONDITION = "conditions/"
_SUCCESS = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}'


def write(store: Store, request: Request, asked: Target) -> tuple[int, bytes]:
    """Do a request: the HTTP status, and the object after it or a Status. Raises ApiError."""
    if request.method == "POST" and asked.name is None:
        return 201, _create(store, request, asked).body
    if request.method == "POST" and asked.collection == PODS and asked.subresource == "binding":
        return 201, _bind(store, _decoded(request), asked)
    if request.method == "POST" and asked.collection == PODS and asked.subresource == "eviction":
        return 201, _evict(store, _decoded(request), asked, dry_run=request.query.get("dryRun") == "All")
    if request.method == "PUT" and asked.name is not None:
        return 200, _change(store, asked, partial(_replaced, _decoded(request), asked)).body
    if request.method == "DELETE" and asked.name is not None:
        _delete(store, request, asked)
        return 200, _SUCCESS
    if request.method == "PATCH" and asked.name is not None:
        code, entry = _patch(store, request, asked, asked.name)
        return code, entry.body
    raise ApiError(405, "MethodNotAllowed", f"{request.method} is not supported on {request.path}")


def _decoded(request: Request) -> Json:
    try:
        # Applied configurations, too, which are YAML by their media type.
        found = json.loads(request.body)
    except ValueError as error:
        raise bad_request(f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise bad_request("the body is no object")
    return found


def _create(store: Store, request: Request, asked: Target) -> Entry:
    found = _decoded(request)
    metadata = found.setdefault("metadata", {})
    if metadata.get("generateName"):
        metadata.setdefault("name", f"{metadata['generateName']}{store.version}")
    name = metadata.get("name")
    if not name:
        raise ApiError(422, "Invalid", "metadata.name: Required value: name or generateName is required")
    with store.lock:
        metadata = found["metadata"] | ({"namespace": asked.namespace} if asked.namespace else {})
        collection = store.collection(asked.collection)
        if collection.get(metadata.get("namespace"), name) is not None:
            raise ApiError(409, "AlreadyExists", f'{collection.resource} "{name}" already exists')
        kept = {key: value for key, value in found.items() if key != "status"}
        return store.put(asked.collection, kept | {"metadata": metadata})


def _bind(store: Store, given: Json, asked: Target) -> bytes:
    """A Binding: sets the node and copies annotations, in one step, on an unbound pod."""
    metadata, target = given.get("metadata") or {}, given.get("target") or {}
    if metadata.get("name") != asked.name:
        raise bad_request(f"name in URL does not match name in Binding object: {metadata.get('name')}")
    if target.get("kind") not in (None, "", "Node", "Minion") or not target.get("name"):
        raise ApiError(422, "Invalid", "target: Required value: a Node's kind and name")

    def bound(before: Json) -> Json:
        there = before["metadata"]
        _check(asked, metadata, there, "uid", "resourceVersion")
        if there.get("deletionTimestamp"):
            raise _conflict(asked, f"pod {asked.name} is being deleted, cannot be assigned to a host")
        if before["spec"].get("nodeName"):
            raise _conflict(
                asked, f"pod {asked.name} is already assigned to node {before['spec']['nodeName']!r}"
            )
        annotations = (there.get("annotations") or {}) | (metadata.get("annotations") or {})
        return before | {
            "metadata": there | {"annotations": annotations},
            "spec": before["spec"] | {"nodeName": target["name"]},
        }

    _change(store, asked, bound)
    return _SUCCESS


def _evict(store: Store, given: Json, asked: Target, dry_run: bool) -> bytes:
    """An Eviction: the pod begins to end, unless a budget with the pod's labels allows no disruption, or it
    is a dry run."""
    wanted = (given.get("deleteOptions") or {}).get("preconditions") or {}

    def leaving(before: Json) -> Json:
        metadata = before["metadata"]
        _check(asked, wanted, metadata, *wanted)
        labels = (metadata.get("labels") or {}).items()
        budgets = [each.object() for each in store.collection(BUDGETS).current()]
        mine = [each for each in budgets if each["spec"]["selector"]["matchLabels"].items() <= labels]
        if len(mine) > 1:
            message = "This pod has more than one PodDisruptionBudget, which the eviction subresource"
            raise ApiError(500, "InternalError", f"{message} does not support.")
        if mine and not mine[0]["status"]["disruptionsAllowed"]:
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            raise ApiError(429, "TooManyRequests", message)
        return before | {"metadata": metadata | {"deletionTimestamp": store.now()}}

    if dry_run:
        assert asked.name is not None
        leaving(store.get(asked.collection, asked.name, asked.namespace).object())
    else:
        _change(store, asked, leaving)
    return _SUCCESS


def _delete(store: Store, request: Request, asked: Target) -> None:
    assert asked.name is not None
    wanted = (_decoded(request) if request.body else {}).get("preconditions") or {}
    with store.lock:
        there = store.get(asked.collection, asked.name, asked.namespace).object()["metadata"]
        _check(asked, wanted, there, *wanted)
        store.delete(asked.collection, asked.name, asked.namespace)


def _check(asked: Target, wanted: Json, there: Json, *fields: str) -> None:
    """A change may name the uid and the version that it is meant for."""
    for field in fields:
        if wanted.get(field) not in (None, "", there[field]):
            raise _conflict(asked, f"Precondition failed: {field} is {there[field]}")


def _conflict(asked: Target, why: str) -> ApiError:
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on "{asked.name}": {why}')


def _change(store: Store, asked: Target, change: Callable[[Json], Json]) -> Entry:
    assert asked.name is not None
    return store.update(asked.collection, asked.name, change, asked.namespace)


def _patch(store: Store, request: Request, asked: Target, name: str) -> tuple[int, Entry]:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip()
    if content_type == _JSON_PATCH:
        return 200, _change(store, asked, partial(_operated, json.loads(request.body), asked))
    patch = _decoded(request)
    if content_type in _MERGE:
        return 200, _change(store, asked, partial(_merged, patch, asked))
    if content_type != _APPLY:
        raise ApiError(
            415, "UnsupportedMediaType", f"the body of the request was in an unknown format {content_type}"
        )
    manager = request.query.get("fieldManager")
    if not manager:
        message = "PatchOptions: fieldManager: Required value: is required for apply patch"
        raise ApiError(422, "Invalid", message)
    with store.lock:
        missing = store.collection(asked.collection).get(asked.namespace, name) is None
        if missing and asked.subresource is None:
            kept = {key: value for key, value in patch.items() if key not in ("status", "metadata")}
            metadata = {"name": name} | ({"namespace": asked.namespace} if asked.namespace else {})
            store.put(asked.collection, kept | {"metadata": metadata})
        entry = _change(store, asked, partial(_applied, patch, asked, manager, store.now()))
        return 201 if missing else 200, entry


def _within(before: Json, after: Json, asked: Target) -> Json:
    """The part of a change that a path admits: `/status` the status, any other everything else."""
    if asked.subresource == "status":
        changed = before | {"status": after.get("status", {})}
    else:
        changed = {key: value for key, value in after.items() if key != "status"}
        changed |= {"status": before["status"]} if "status" in before else {}
        fixed = ("name", "namespace", "uid", "creationTimestamp", "resourceVersion")
        old = {key: before["metadata"][key] for key in fixed if key in before["metadata"]}
        changed["metadata"] = after.get("metadata", {}) | old
    return before if changed == before else changed


def _replaced(given: Json, asked: Target, before: Json) -> Json:
    metadata = given.get("metadata", {})
    custom = asked.collection.startswith("/apis/gpu.scheduler-ext.io/")
    if custom and not metadata.get("resourceVersion"):
        raise ApiError(422, "Invalid", "metadata.resourceVersion: must be specified for an update")
    _check(asked, metadata, before["metadata"], "uid", "resourceVersion")
    return _within(before, given, asked)


def _merged(patch: Json, asked: Target, before: Json) -> Json:
    _check(asked, patch.get("metadata", {}), before["metadata"], "resourceVersion")
    return _within(before, merge(before, patch), asked)


def _operated(operations: list[Json], asked: Target, before: Json) -> Json:
    """A JSON patch (RFC 6902) of `test` and `remove`."""
    after = json.loads(json.dumps(before))
    for operation in operations:
        *path, last = operation["path"].split("/")[1:]
        part = after
        try:
            for key in path:
                part = part[int(key)] if isinstance(part, list) else part[key]
            place = int(last) if isinstance(part, list) else last
            if operation["op"] == "remove":
                del part[place]
            elif part[place] != operation["value"]:
                raise KeyError(last)
        except (KeyError, IndexError):
            message = "the server rejected our request due to an error in our request"
            raise ApiError(422, "Invalid", message) from None
    return _within(before, after, asked)


def merge(before: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396); the arguments stay unchanged."""
    if not isinstance(patch, dict):
        return patch
    after = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merge(after.get(key), value)
    return after


def _applied(patch: Json, asked: Target, manager: str, now: str, before: Json) -> Json:
    _check(asked, patch.get("metadata", {}), before["metadata"], "uid", "resourceVersion")
    entries: list[Json] = before["metadata"].get("managedFields", [])
    mine = (manager, "Apply", asked.subresource)
    owned: Json = next((entry["fieldsV1"] for entry in entries if _owner(entry) == mine), {})
    after = before | {"metadata": dict(before["metadata"])}
    fields: Json = {}
    for section in _sections(asked):
        parent = after if section in ("spec", "status") else after["metadata"]
        given = _flat((patch if parent is after else patch.get("metadata", {})).get(section))
        there = _flat(parent.get(section))
        of_others = given.keys() - {key.removeprefix("f:") for key in owned.get(f"f:{section}", {})}
        if asked.collection == PODS and any(there.get(key, given[key]) != given[key] for key in of_others):
            raise _conflict(asked, "Apply failed with 1 conflict")
        dropped = {key.removeprefix("f:") for key in owned.get(f"f:{section}", {})} - set(given)
        values = {key: value for key, value in there.items() if key not in dropped}
        if values or given or dropped:
            parent |= {section: _nested(values | given)}
        if given:
            fields[f"f:{section}"] = {f"f:{key}": {} for key in given}
    if after == before and fields == owned:
        return before
    entry = {"manager": manager, "operation": "Apply", "apiVersion": patch.get("apiVersion"), "time": now}
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": fields}
    entry |= {"subresource": asked.subresource} if asked.subresource else {}
    after["metadata"]["managedFields"] = [e for e in entries if _owner(e) != mine] + [entry]
    return after


def _flat(section: Json | None) -> Json:
    """A section whose conditions are fields of their own, by type: the API server merges them so."""
    found = dict(section or {})
    return found | {f"{_CONDITION}{each['type']}": each for each in found.pop("conditions", ())}


def _nested(flat: Json) -> Json:
    conditions = [value for key, value in flat.items() if key.startswith(_CONDITION)]
    found = {key: value for key, value in flat.items() if not key.startswith(_CONDITION)}
    return found | ({"conditions": conditions} if conditions else {})


def _sections(asked: Target) -> tuple[str, ...]:
    if asked.subresource == "status":
        return ("status", "annotations") if asked.collection == PODS else ("status",)
    return "spec", "labels", "annotations"


def _owner(entry: Json) -> tuple[str, str, str | None]:
    return entry["manager"], entry["operation"], entry.get("subresource")
