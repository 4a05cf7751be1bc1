"""The objects of manifests/base without kustomize, for tests that have no kubectl."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import yaml

from tests.manifests.objects import Json, containers, of_kind

REPOSITORY = Path(__file__).parents[2]
AGENT = REPOSITORY / "manifests" / "agent"
BASE = REPOSITORY / "manifests" / "base"
MTLS = REPOSITORY / "manifests" / "components" / "standalone-mtls"


def documents(directory: Path) -> list[Json]:
    """Every object in the files that a kustomization lists as resources."""
    listed = yaml.safe_load((directory / "kustomization.yaml").read_bytes())["resources"]
    files = [directory / name for name in listed if name.endswith(".yaml")]
    return [each for file in files for each in yaml.safe_load_all(file.read_bytes()) if each]


def base() -> list[Json]:
    """manifests/base with the ConfigMap that config/ makes; a copy that may be changed."""
    return [*copy.deepcopy(_base()), _config_map(REPOSITORY / "config")]


def standalone() -> list[Json]:
    """The same with what the component standalone-mtls adds and replaces, but for what it takes away."""
    objects = [*copy.deepcopy(_base()), *documents(MTLS), _config_map(MTLS)]
    (patch,) = yaml.safe_load_all((MTLS / "scheduler.yaml").read_bytes())
    patched = {each["name"]: each for _, each in containers([patch])}
    for _, container in containers(of_kind(objects[: len(_base())], "Deployment")):
        container["volumeMounts"] += patched[container["name"]].get("volumeMounts", [])
    return objects


@cache
def _base() -> list[Json]:
    return [*documents(BASE), *documents(AGENT)]


def _config_map(directory: Path) -> Json:
    text = (directory / "kube-scheduler.yaml").read_text()
    return {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"kube-scheduler.yaml": text}}
