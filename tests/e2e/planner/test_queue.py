"""`scheduler-ext queue` against an extender that plans: planned and waiting pods, with their starts."""

from __future__ import annotations

import json

from tests.cli.commands import run
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.planner.planner_lab import ONE, PlannerLab

TWO = {"nvidia.com/gpu": "2"}


def queue(lab: PlannerLab, *options: str) -> str:
    kubeconfig = lab.installation.plane.kubeconfig("admin")
    done = run("queue", "--kubeconfig", kubeconfig, "-n", lab.namespace, *options)
    assert done.exit_code == 0, done.output
    return done.output


def listed(lab: PlannerLab) -> Json:
    listing: Json = json.loads(queue(lab, "-o", "json", "--from", "extender"))
    return listing


def test_planned_and_waiting_pods_with_their_starts(lab: PlannerLab) -> None:
    node = lab.add_whole("only", 2)
    lab.publish()
    hour = lab.create(lab.pod(ONE, activeDeadlineSeconds=3600))
    assert lab.await_node(hour) == node
    with lab.held():
        planned = lab.create(lab.pod(ONE, priorityClassName="system-node-critical"))
        assert lab.await_nominated(planned) == node
        large = lab.create(lab.pod(TWO))
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
