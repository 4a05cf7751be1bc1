"""Kustomizations of tests: an overlay with components, and a configuration of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from tests.e2e.cluster.api import Json
from tests.e2e.installation import MANIFESTS


def write_kustomization(
    directory: Path,
    overlay: str = "base",
    components: Iterable[str | Path] = (),
    *,
    extender: Json | None = None,
    files: Mapping[str, str] | None = None,
    patches: Sequence[Json] = (),
) -> Path:
    """A kustomization in `directory`, which it returns. `extender` has the sections of the extender's
    configuration; `files` are further files of the ConfigMap.
    """
    directory.mkdir(exist_ok=True)
    texts = dict(files or {})
    if extender is not None:
        head = {"apiVersion": "config.scheduler-ext.io/v1alpha1", "kind": "ExtenderConfiguration"}
        texts["extender.yaml"] = yaml.safe_dump(head | extender)
    for name, text in texts.items():
        (directory / name).write_text(text)
    configuration = {"name": "gpu-scheduler-config", "namespace": "gpu-scheduler", "behavior": "merge"}

    def relative(path: Path) -> str:
        # kustomize accepts directories by their relative paths only.
        return os.path.relpath(path, directory.resolve())

    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [relative(MANIFESTS / overlay)],
        "components": [relative(MANIFESTS / "components" / each) for each in components],
        "patches": list(patches),
        "configMapGenerator": [configuration | {"files": sorted(texts)}] if texts else [],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return directory
