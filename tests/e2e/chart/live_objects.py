"""The objects of an installation as the API server has stored them."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.chart.helm import Key, comparable
from tests.e2e.cluster.control_plane import ControlPlane
from tests.manifests.objects import Json

# Written by Helm, by controllers of Kubernetes, or by the API server.
_WRITTEN_BY_OTHERS = (
    "app.kubernetes.io/managed-by",
    "meta.helm.sh/",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "kubernetes.io/service-account.uid",
    "kubernetes.io/legacy-token-last-used",
)


def live_objects(plane: ControlPlane) -> dict[Key, Any]:
    """All objects with the label of the installation, of every kind, without those that controllers made.

    Two installations are equal if these are. Tokens of the API server and states are left out.
    """
    kinds = plane.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    chosen = ",".join(each for each in kinds if not each.startswith("events"))
    told = plane.kubectl("get", chosen, "-A", "-l", "app.kubernetes.io/name=gpu-scheduler", "-o", "json")
    objects = [each for each in json.loads(told)["items"] if "ownerReferences" not in each["metadata"]]
    return comparable([_stated(each) for each in objects])


def _stated(each: Json) -> Json:
    metadata = each["metadata"]
    own = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    for key in ("labels", "annotations"):
        values = metadata.get(key, {}).items()
        kept = {name: value for name, value in values if not name.startswith(_WRITTEN_BY_OTHERS)}
        if kept:
            own[key] = kept
    gone = ("metadata", "status", *(("data",) if each["kind"] == "Secret" else ()))
    return {"metadata": own, **{key: value for key, value in each.items() if key not in gone}}
