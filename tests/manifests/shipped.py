"""The objects of manifests/base without kustomize, for tests that have no kubectl."""

from __future__ import annotations

import copy
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.manifests.objects import Json, of_kind

REPOSITORY = Path(__file__).parents[2]
AGENT = REPOSITORY / "manifests" / "agent"
BASE = REPOSITORY / "manifests" / "base"
MONITORING = REPOSITORY / "manifests" / "components" / "monitoring"
MTLS = REPOSITORY / "manifests" / "components" / "standalone-mtls"
DRA = REPOSITORY / "manifests" / "components" / "dra"
PLACEHOLDERS = REPOSITORY / "manifests" / "components" / "placeholders"
DRA_HEALTH = REPOSITORY / "manifests" / "components" / "dra-health"
PLANNER = REPOSITORY / "manifests" / "components" / "planner"
IDLE_RECLAIM = REPOSITORY / "manifests" / "components" / "idle-reclaim"
GANGS = REPOSITORY / "manifests" / "components" / "gangs"
SHARES = REPOSITORY / "manifests" / "components" / "shares"
SHARES_CDI = REPOSITORY / "manifests" / "components" / "shares-cdi"


def documents(directory: Path) -> list[Json]:
    """Every object in the files that a kustomization lists as resources."""
    listed = yaml.safe_load((directory / "kustomization.yaml").read_bytes())["resources"]
    files = [directory / name for name in listed if name.endswith(".yaml")]
    return [copy.deepcopy(each) for file in files for each in _objects(file)]


@cache
def _objects(file: Path) -> list[Json]:
    # PyYAML's own parser takes a second for all of them, at the collection of every worker.
    return [
        each
        for each in yaml.load_all(file.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if each
    ]


def base() -> list[Json]:
    """manifests/base with the ConfigMap that config/ makes; a copy that may be changed."""
    return [*copy.deepcopy(_base()), _config_map(REPOSITORY / "config")]


def standalone() -> list[Json]:
    """The same with the additions, replacements and removals of the component standalone-mtls."""
    kustomization = yaml.safe_load((MTLS / "kustomization.yaml").read_bytes())
    patches = [yaml.safe_load(each["patch"]) for each in kustomization["patches"] if "patch" in each]
    assert all(each["$patch"] == "delete" for each in patches)
    gone = {(each["kind"], each["metadata"]["name"]) for each in patches}
    objects = [each for each in _base() if (each["kind"], each["metadata"]["name"]) not in gone]
    assert len(objects) == len(_base()) - len(gone)
    objects = copy.deepcopy(objects)
    (patch,) = yaml.safe_load_all((MTLS / "scheduler.yaml").read_bytes())
    for deployment in of_kind(objects, "Deployment"):
        _merge(deployment["spec"]["template"]["spec"], patch["spec"]["template"]["spec"])
    return [*objects, *documents(MTLS), _config_map(MTLS)]


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


def shares(*further: Path) -> list[Json]:
    """The base with the component shares, and with further ones that add objects and replace fields."""
    objects = copy.deepcopy(_base())
    for component in (SHARES, *further):
        objects += documents(component)
        for patch in yaml.safe_load((component / "kustomization.yaml").read_bytes())["patches"]:
            _replace(objects, patch)
    return [*objects, _config_map(SHARES)]


def dra() -> list[Json]:
    """The base with the configuration of the component dra."""
    return [*copy.deepcopy(_base()), _config_map(DRA)]


def dra_health() -> list[Json]:
    """The base with the component dra-health."""
    return [*copy.deepcopy(_base()), *documents(DRA_HEALTH), _config_map(REPOSITORY / "config")]


def placeholders() -> list[Json]:
    """The base with the component placeholders."""
    return [*copy.deepcopy(_base()), *documents(PLACEHOLDERS), _config_map(REPOSITORY / "config")]


def idle_reclaim() -> list[Json]:
    """The base with the component idle-reclaim."""
    return [*copy.deepcopy(_base()), *documents(IDLE_RECLAIM), _config_map(REPOSITORY / "config")]


def gangs() -> list[Json]:
    """The base with the component gangs."""
    return [*copy.deepcopy(_base()), *documents(GANGS), _config_map(REPOSITORY / "config")]


def planner() -> list[Json]:
    """The overlay planner."""
    merged = _config_map(REPOSITORY / "config")
    own = REPOSITORY / "manifests" / "overlays" / "planner" / "extender.yaml"
    merged["data"]["extender.yaml"] = own.read_text()
    return [*copy.deepcopy(_base()), *documents(PLANNER), merged]


def monitoring() -> list[Json]:
    """The objects that the component monitoring adds."""
    (made,) = yaml.safe_load((MONITORING / "kustomization.yaml").read_bytes())["configMapGenerator"]
    data = {name: (MONITORING / name).read_text() for name in made["files"]}
    metadata = {"name": made["name"], "namespace": made["namespace"], "labels": made["options"]["labels"]}
    return [*documents(MONITORING), {"kind": "ConfigMap", "metadata": metadata, "data": data}]


def _replace(objects: list[Json], patch: Json) -> None:
    """kustomize's result for a patch that tests and replaces single fields."""
    target, operations = patch["target"], yaml.safe_load(patch["patch"])
    for each in objects:
        if not all(
            re.fullmatch(pattern, found)
            for pattern, found in (
                (target["kind"], each["kind"]),
                (target["name"], each["metadata"]["name"]),
            )
        ):
            continue
        for operation in operations:
            *above, last = (int(key) if key.isdigit() else key for key in operation["path"].split("/")[1:])
            parent: Any = each
            for key in above:
                parent = parent[key]
            if operation["op"] == "replace":
                parent[last] = operation["value"]
            assert operation["op"] in ("test", "replace")
            assert parent[last] == operation["value"]


@cache
def _base() -> list[Json]:
    return [*documents(BASE), *documents(AGENT)]


def _config_map(directory: Path) -> Json:
    """Both configurations as kustomize merges them: a component's own, and the base's where it has none."""
    own = directory / "extender.yaml"
    extender = own if own.exists() else REPOSITORY / "config" / "default.yaml"
    files = {"kube-scheduler.yaml": directory / "kube-scheduler.yaml", "extender.yaml": extender}
    data = {name: file.read_text() for name, file in files.items()}
    return {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
