"""The planner on the real kube-scheduler: refused pods are nominated once they fit, it binds them there, and
`scheduler-ext queue` shows nominated and waiting pods."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.commands import run
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.installation import NAMESPACE, Installation, running_installation
from tests.e2e.workload import Workload
from tests.kube_objects import gpu

PLANNED = "gpu.scheduler-ext.io/planned"
ONE = {"nvidia.com/gpu": "1"}
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gpu-scheduler"


class Lab(Workload):
    """`held` stops the active kube-scheduler for a moment; its Lease, and so its extender, stays active."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """kube-scheduler does nothing meanwhile."""
        child = self.installation.active().containers["kube-scheduler"].child
        assert child is not None
        child.signal_all(signal.SIGSTOP)
        # Its next renewal makes it short again.
        self.api.patch(LEASE, {"spec": {"leaseDurationSeconds": 600}})
        try:
            yield
        finally:
            child.signal_all(signal.SIGCONT)

    def await_nominated(self, name: str) -> str:
        """Wait until a pod is nominated, and return its node."""
        return str(
            eventually(lambda: self.get(name)["status"].get("nominatedNodeName"), f"{name} is nominated")
        )


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running_installation(tmp_path_factory.mktemp("planner")) as installation:
        yield installation


@pytest.fixture
def lab(planner: Installation) -> Iterator[Lab]:
    with Lab(planner) as lab:
        yield lab


def devices(node: str, **fields: Any) -> list[Json]:
    """Four GPUs."""
    return [gpu(i, f"GPU-{node}-{i}", **fields) for i in range(4)]


def test_refused_pods_are_nominated_once_they_fit_and_bound_there(lab: Lab) -> None:
    """Only the extender knows that their GPUs are sick, and when they are not."""
    sick = {"health": {"state": "Unhealthy", "reason": "XID 79"}}
    nodes = [lab.add_node(stem, {"nvidia.com/gpu": "4"}, devices(stem, **sick)) for stem in "abc"]
    lab.publish(all_known=False)

    def bound() -> float:
        return lab.installation.metric("gpu_extender_nominations_total", outcome="bound")

    before = bound()
    names = lab.create_all([lab.pod(ONE) for _ in range(12)])
    for name in names:
        eventually(lambda each=name: lab.unscheduled(each), f"{name} is refused")  # type: ignore[misc]
    with lab.held():
        for stem, node in zip("abc", nodes, strict=True):
            lab.report(node, devices(stem))
        lab.publish()
        planned = {name: lab.await_nominated(name) for name in names}
        meta = lab.get(names[0])["metadata"]
        writers = {
            each["manager"]
            for each in meta["managedFields"]
            if "f:nominatedNodeName" in each["fieldsV1"].get("f:status", {})
        }
        assert writers == {"scheduler-ext-planner"}
        assert json.loads(meta["annotations"][PLANNED])["node"] == planned[names[0]]
    assert {name: lab.await_node(name) for name in names} == planned
    assert sorted(map(list(planned.values()).count, set(planned.values()))) == [4, 4, 4]
    eventually(lambda: bound() == before + 12, "the outcomes are counted")


def queue(lab: Lab, *options: str) -> str:
    kubeconfig = lab.installation.plane.kubeconfig("admin")
    done = run("queue", "--kubeconfig", kubeconfig, "-n", lab.namespace, *options)
    assert done.exit_code == 0, done.output
    return done.output


def listed(lab: Lab) -> Json:
    listing: Json = json.loads(queue(lab, "-o", "json", "--from", "extender"))
    return listing


def test_nominated_and_waiting_pods_with_their_starts(lab: Lab) -> None:
    node = lab.add_whole("only", 2)
    lab.publish()
    hour, other = lab.create_all([lab.pod(ONE, activeDeadlineSeconds=3600), lab.pod(ONE)])
    assert {lab.await_node(hour), lab.await_node(other)} == {node}
    planned, large = (lab.create(lab.pod(asks)) for asks in (ONE, {"nvidia.com/gpu": "2"}))
    for name in (planned, large):
        eventually(lambda each=name: lab.unscheduled(each), f"{name} is refused")  # type: ignore[misc]
    with lab.held():
        lab.remove(other)
        assert lab.await_nominated(planned) == node
        listing = eventually(
            lambda: (found := listed(lab))["total"] == 2 and found, "both pods wait in the queue"
        )
        table = queue(lab)
    assert listing["planning"] is True
    first, second = listing["items"]
    assert (first["name"], first["state"], first["nodes"]) == (planned, "nominated", {node: 1})
    assert first["start"]["latest"] is not None
    assert (second["name"], second["state"], second["nodes"]) == (large, "waiting", {})
    assert second["start"]["unknown"] is not None
    assert second["reason"]
    assert first["position"] < second["position"]
    assert next(line.split()[1] for line in table.splitlines() if line[:1].isdecimal()) == planned
    assert lab.installation.metric("gpu_extender_queue_pods", state="waiting") >= 1
    lab.await_node(planned)
    left = eventually(lambda: (found := listed(lab))["total"] == 1 and found, "one waits")
    assert [item["name"] for item in left["items"]] == [large]
