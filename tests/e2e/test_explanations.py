"""Explanations of a real kube-scheduler's pods by the extender that decided: while they wait, and after."""

from __future__ import annotations

import json
from urllib.request import urlopen

import pytest

from tests.cli.commands import run
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.ports import LOOPBACK
from tests.e2e.workload import Workload

INSPECT_PORT = 8890
WHOLE = "nvidia.com/gpu"


def asked(workload: Workload, path: str) -> bytes:
    """The answer of the active extender's inspection listener, as through a port-forward."""
    active = workload.installation.active()
    with urlopen(f"http://{LOOPBACK}:{active.ports.local(INSPECT_PORT)}{path}") as reply:
        body: bytes = reply.read()
        return body


def explained(workload: Workload, name: str) -> Json:
    answer: Json = json.loads(asked(workload, f"/explain?pod={workload.namespace}/{name}"))
    return answer


def test_a_pod_that_was_placed(workload: Workload) -> None:
    small = workload.add_whole("small", 1)
    workload.add_whole("large", 4)
    workload.publish()
    name = workload.create(workload.pod({WHOLE: "1"}))
    where = workload.await_node(name)
    workload.await_event(name, "GPUPlacement")
    answer = eventually(
        lambda: (found := explained(workload, name))["boundTo"] and found, "the extender knows where it is"
    )
    recorded = answer["recorded"]
    assert (answer["boundTo"], recorded["nodesOut"], recorded["bound"]["node"]) == (where, 2, where)
    assert recorded["best"]["node"] == small
    assert recorded["bound"]["result"] == "seen"
    assert {term["name"] for term in recorded["best"]["terms"]} >= {"fragmentation", "health"}


def test_a_pod_that_waits_for_another_one(workload: Workload) -> None:
    node = workload.add_whole("only", 1)
    other = workload.add_whole("other", 8)
    workload.publish()
    selector = {"kubernetes.io/hostname": node}
    first = workload.create(workload.pod({WHOLE: "1"}, nodeSelector=selector))
    workload.await_node(first)
    late = workload.create(workload.pod({WHOLE: "1"}, nodeSelector=selector))
    workload.await_event(late, "FailedScheduling")
    answer = eventually(
        lambda: (found := explained(workload, late))["nearest"] and found, "the extender knows of it"
    )
    reasons = {entry["node"]: entry["reason"] for entry in answer["nodes"]}
    assert reasons.keys() >= {node, other}
    assert f"pod {workload.namespace}/{first} (priority 0)" in answer["nearest"]["text"]
    # kube-scheduler counts whole GPUs itself, and asks about no node if none is left.
    assert (answer["fits"], answer["recorded"]) == (False, None)
    assert answer["kubeScheduler"]


def test_a_snapshot_of_the_cluster_is_replayed_with_the_same_answer(
    workload: Workload, tmp_path_factory: pytest.TempPathFactory
) -> None:
    workload.add_whole("small", 1)
    workload.publish()
    name = workload.create(workload.pod({WHOLE: "1"}))
    workload.await_node(name)
    eventually(lambda: explained(workload, name)["boundTo"], "the extender knows where it is")
    file = tmp_path_factory.mktemp("replay") / "snapshot.json.gz"
    file.write_bytes(asked(workload, "/debug/snapshot"))
    told = run("replay", file, "--pod", f"{workload.namespace}/{name}", "-o", "json")
    assert json.loads(told.stdout) == explained(workload, name)
