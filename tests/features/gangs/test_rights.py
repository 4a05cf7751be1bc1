"""Rights of the component `gangs`, to the last verb."""

from __future__ import annotations

from tests.manifests.shipped import shipped
from tests.manifests.test_rights import BASE, spelled_out

RIGHTS: dict[str, set[str]] = {
    "ClusterRole gpu-scheduler-gangs": {
        " pods: patch",
        " pods/eviction: create",
        "scheduling.k8s.io podgroups: get",
        "scheduling.x-k8s.io podgroups: get",
        "jobset.x-k8s.io jobsets: get",
        *(f"kubeflow.org {kind}jobs: get" for kind in ("jax", "mpi", "paddle", "pytorch", "tf", "xgboost")),
    },
}


def test_the_rights() -> None:
    assert spelled_out(shipped("gangs")) == BASE | RIGHTS
