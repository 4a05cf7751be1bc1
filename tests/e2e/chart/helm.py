"""Helm, and the chart's objects beside those of kustomize."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.cluster.binaries import SHIPPED_MINOR, find_binaries, find_helm, kubernetes_version
from tests.manifests.objects import Json, of_kind
from tests.manifests.shipped import REPOSITORY

MANIFESTS = REPOSITORY / "manifests"
CHART = MANIFESTS / "charts" / "gpu-scheduler"
RELEASE = NAMESPACE = "gpu-scheduler"
_NAMED_BY_CONTENT = re.compile(r"(gpu-scheduler-config)-[a-z0-9]{10}$")
Key = tuple[str, str, str]


class HelmError(RuntimeError):
    """Helm failed; str() has its message."""


def helm(directory: Path, *arguments: str | Path) -> str:
    """Helm's output, with nothing of the user's own. Raises HelmError."""
    environment = {"HOME": str(directory), "KUBECONFIG": str(directory / "none")}
    done = subprocess.run(
        [find_helm(), *map(str, arguments)],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise HelmError(done.stderr.strip())
    return done.stdout


def rendered(
    directory: Path,
    values: Json,
    version: str | None = None,
    namespace: str = NAMESPACE,
    chart: Path = CHART,
) -> list[Json]:
    """The objects of the chart with these values, hooks included. Raises HelmError.

    `version` is that of the cluster; None: that of the tests.
    """
    file = directory / "values.json"
    file.write_text(json.dumps(values))
    release = version or kubernetes_version(SHIPPED_MINOR)
    options = ("--namespace", namespace, "--kube-version", release, "--values", file)
    text = helm(directory, "template", RELEASE, chart, *options)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for each in yaml.load_all(text, loader) if each]


def kustomized(directory: Path, kustomization: Json, files: dict[str, str] | None = None) -> list[Json]:
    """The objects of a kustomization, whose paths are relative to manifests/."""
    kustomization = copy.deepcopy(kustomization)
    for key in ("resources", "components"):
        kustomization[key] = [
            os.path.relpath(MANIFESTS / path, directory) for path in kustomization.get(key, ())
        ]
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    for name, text in (files or {}).items():
        (directory / name).write_text(text)
    command = [str(find_binaries().kubectl), "kustomize", str(directory)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def hooks(objects: Sequence[Json]) -> list[Json]:
    """The objects that exist only while `helm test` runs."""
    return [each for each in objects if "helm.sh/hook" in each["metadata"].get("annotations", {})]


def comparable(objects: Sequence[Json]) -> dict[Key, Json]:
    """The objects by kind, namespace and name, without the differences that the two ways of installing need.

    kustomize gives a ConfigMap a name by its content; the chart has a checksum in an annotation of the pods.
    The texts of a ConfigMap count by their content, because the chart writes changed ones without comments.
    `helm uninstall` keeps objects with an annotation.
    """
    found = {}
    for each in copy.deepcopy(list(objects)):
        _without_names_by_content(each)
        metadata = each["metadata"]
        _drop(metadata, "annotations", "helm.sh/resource-policy")
        template = each.get("spec", {}).get("template", {}).get("metadata", {})
        _drop(template, "annotations", "checksum/config")
        if each["kind"] == "ConfigMap":
            each["data"] = {name: yaml.safe_load(text) for name, text in each["data"].items()}
        found[each["kind"], metadata.get("namespace", ""), metadata["name"]] = each
    return found


def installed(directory: Path, values: Json) -> dict[Key, Json]:
    """The chart's objects without hooks, for the comparison."""
    objects = rendered(directory, values)
    gone = hooks(objects)
    return comparable([each for each in objects if each not in gone])


def assert_equal(
    directory: Path, values: Json, kustomization: Json, files: dict[str, str] | None = None
) -> None:
    """The chart with these values has the objects of a kustomization."""
    ours, theirs = installed(directory, values), comparable(kustomized(directory, kustomization, files))
    assert ours.keys() == theirs.keys()
    for key, each in theirs.items():
        assert ours[key] == each


def of_chart(objects: Sequence[Json], kind: str) -> Json:
    """The only object of a kind that is no hook."""
    gone = hooks(objects)
    (found,) = (each for each in of_kind(objects, kind) if each not in gone)
    return found


def _without_names_by_content(value: Any) -> None:
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, part in items:
        if isinstance(part, dict | list):
            _without_names_by_content(part)
        elif key == "name" and isinstance(part, str):
            value[key] = _NAMED_BY_CONTENT.sub(r"\1", part)


def _drop(metadata: Json, field: str, key: str) -> None:
    values = metadata.get(field)
    if values is not None:
        values.pop(key, None)
        if not values:
            del metadata[field]
