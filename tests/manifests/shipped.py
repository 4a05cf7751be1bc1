"""The objects of manifests/ without kustomize, for tests that have no kubectl."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.manifests.objects import Json
from tests.pages import ROOT

REPOSITORY = ROOT
MANIFESTS = REPOSITORY / "manifests"
COMPONENTS = MANIFESTS / "components"
CONFIG = REPOSITORY / "config"
AGENTS = sorted(path.name for path in COMPONENTS.glob("agent-*"))
_CONFIGURATIONS = {
    "kube-scheduler.yaml": CONFIG / "kube-scheduler.yaml",
    "extender.yaml": CONFIG / "default.yaml",
}


def shipped(*components: str) -> list[Json]:
    """The base with these components, in that order; raises KeyError for a path that is not there. A
    component's own configurations replace those of the base."""
    objects = [*documents(MANIFESTS / "base"), *documents(MANIFESTS / "agent")]
    configurations = dict(_CONFIGURATIONS)
    for component in components:
        folder = COMPONENTS / component
        objects += documents(folder)
        for patch in _kustomization(folder).get("patches", ()):
            text = patch["patch"] if "patch" in patch else (folder / patch["path"]).read_text()
            _apply(objects, patch.get("target"), yaml.safe_load(text))
        configurations |= {name: folder / name for name in configurations if (folder / name).exists()}
    data = {name: file.read_text() for name, file in configurations.items()}
    return [*objects, {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}]


def base() -> list[Json]:
    return shipped()


def standalone() -> list[Json]:
    return shipped("standalone-mtls")


def monitoring() -> list[Json]:
    """The objects that the component monitoring adds."""
    folder = COMPONENTS / "monitoring"
    (made,) = _kustomization(folder)["configMapGenerator"]
    data = {name: (folder / name).read_text() for name in made["files"]}
    metadata = {"name": made["name"], "namespace": made["namespace"], "labels": made["options"]["labels"]}
    return [*documents(folder), {"kind": "ConfigMap", "metadata": metadata, "data": data}]


def documents(folder: Path) -> list[Json]:
    """A copy of every object in the files that a kustomization lists as resources."""
    listed = _kustomization(folder).get("resources", ())
    files = [folder / name for name in listed if name.endswith(".yaml")]
    return [copy.deepcopy(each) for file in files for each in _objects(file) if each]


def _kustomization(folder: Path) -> Json:
    (found,) = _objects(folder / "kustomization.yaml")
    return found


@cache
def _objects(file: Path) -> list[Json]:
    # PyYAML's own parser takes a second for all of them, at the collection of every worker.
    return list(yaml.load_all(file.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def _apply(objects: list[Json], target: Json | None, patch: Any) -> None:
    """Single operations for the target, or an object of which the rest is left out."""
    wanted = target or {"kind": patch["kind"], "name": patch["metadata"]["name"]}
    found = [
        each
        for each in objects
        if re.fullmatch(wanted["kind"], each["kind"])
        and re.fullmatch(wanted["name"], each["metadata"]["name"])
    ]
    # A target may be an object of another component.
    assert found or target, wanted
    for each in found:
        if isinstance(patch, list):
            for operation in patch:
                _operate(each, operation)
        elif patch.get("$patch") == "delete":
            objects.remove(each)
        else:
            _merge(each["spec"]["template"]["spec"], patch["spec"]["template"]["spec"])


def _operate(document: Any, operation: Json) -> None:
    """An operation of RFC 6902."""
    *above, last = _keys(operation["path"])
    for key in above:
        document = document[key]
    if last == "-":
        document.append(copy.deepcopy(operation["value"]))
        return
    if operation["op"] != "add":
        # It has to be there.
        document[last]
    if operation["op"] == "remove":
        del document[last]
    elif operation["op"] == "test":
        assert document[last] == operation["value"]
    else:
        document[last] = copy.deepcopy(operation["value"])


def _keys(path: str) -> Iterator[str | int]:
    for part in path.split("/")[1:]:
        yield int(part) if part.isdecimal() else part.replace("~1", "/")


def _merge(spec: Json, patch: Json) -> None:
    """kustomize's merge of lists whose elements have names."""
    for key, entries in patch.items():
        present = {each["name"]: each for each in spec[key]}
        for entry in entries:
            if entry.get("$patch") == "delete":
                spec[key].remove(present[entry["name"]])
            elif entry["name"] in present:
                present[entry["name"]]["volumeMounts"] += entry["volumeMounts"]
            else:
                spec[key].append(entry)
