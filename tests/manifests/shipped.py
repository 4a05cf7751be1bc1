"""The objects of manifests/base without kustomize, for tests that have no kubectl."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import yaml

from tests.manifests.policy import Json

REPOSITORY = Path(__file__).parents[2]
BASE = REPOSITORY / "manifests" / "base"
MTLS = REPOSITORY / "manifests" / "components" / "standalone-mtls"


def documents(directory: Path) -> list[Json]:
    """Every object in the files that a kustomization lists as resources."""
    listed = yaml.safe_load((directory / "kustomization.yaml").read_bytes())["resources"]
    files = [directory / name for name in listed if name.endswith(".yaml")]
    return [each for file in files for each in yaml.safe_load_all(file.read_bytes()) if each]


def base() -> list[Json]:
    """manifests/base with the ConfigMap that config/ makes; a copy that may be changed."""
    return copy.deepcopy(_base())


@cache
def _base() -> list[Json]:
    scheduler = (REPOSITORY / "config" / "kube-scheduler.yaml").read_text()
    config = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"kube-scheduler.yaml": scheduler}}
    return [*documents(BASE), config]
