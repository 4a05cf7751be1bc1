"""The workload of a pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler_ext.wire import kube
from scheduler_ext.wire.controllers import Controller, top_controller
from scheduler_ext.wire.objects import read_objects
from tests.kube_objects import Json, inventory, pod


def owner(kind: str, name: str, **more: Any) -> Json:
    return {"kind": kind, "name": name, "uid": "u", "controller": True} | more


def made(kind: str, name: str, *owners: Json, namespace: str = "default") -> Json:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": list(owners)},
    }


def named(each: Json, *owners: Json, labels: Json | None = None) -> Json:
    each["metadata"] |= {"ownerReferences": list(owners), "labels": labels or {}}
    return each


@pytest.mark.parametrize(
    ("owned", "others", "expected"),
    [
        pytest.param(pod("p"), [], None, id="a pod by itself"),
        pytest.param(
            named(pod("p"), owner("StatefulSet", "w" * 254)),
            [],
            None,
            id="a name longer than any object's, which the API server takes: it would be a label of a metric",
        ),
        pytest.param(
            named(pod("p"), owner("ReplicaSet", "web-5d4f")),
            [made("ReplicaSet", "web-5d4f", owner("Deployment", "web"))],
            ("Deployment", "web"),
            id="the Deployment of its ReplicaSet",
        ),
        pytest.param(
            named(pod("p"), owner("ReplicaSet", "web-5d4f"), labels={"pod-template-hash": "5d4f"}),
            [],
            ("Deployment", "web"),
            id="a ReplicaSet that is not known has the name of its Deployment, by the label",
        ),
        pytest.param(
            named(pod("p"), owner("ReplicaSet", "web-5d4f"), labels={"pod-template-hash": ""}),
            [],
            ("ReplicaSet", "web-5d4f"),
            id="an empty label says nothing",
        ),
        pytest.param(
            named(pod("p"), owner("Job", "nightly-29")),
            [made("Job", "nightly-29", owner("CronJob", "nightly"))],
            ("CronJob", "nightly"),
            id="the CronJob of its Job",
        ),
        pytest.param(
            named(pod("p"), owner("Job", "train")),
            [made("Job", "train", owner("CronJob", "nightly"), namespace="other")],
            ("Job", "train"),
            id="a Job of another namespace is another one",
        ),
        pytest.param(
            named(pod("p"), owner("ConfigMap", "c", controller=None), owner("RayCluster", "r")),
            [],
            ("RayCluster", "r"),
            id="of several owners, the controller",
        ),
    ],
)
def test_the_workload_of_a_pod(owned: Json, others: list[Json], expected: tuple[str, str] | None) -> None:
    controllers = read_objects(inventory(owned, *others)).controllers
    metadata = msgspec.convert(owned["metadata"], kube.ObjectMeta)
    found = top_controller(metadata, controllers)
    assert found == (Controller("default", *expected) if expected is not None else None)
