"""Rooms that a defragmentation holds in a live cluster, in answers about pods."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_ext.wire.held_annotation import HELD_ANNOTATION
from scheduler_ext.wire.times import time_text
from tests.cli.commands import WHOLE, Written, run
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, gpu, gpu_node, node, pod

NOTE = "Note: a defragmentation holds room on a for pod default/w "
WITHOUT = "would fit if the room that a defragmentation holds for pod default/w (priority 0) ended"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as found:
        # Far from the clock of this machine.
        found.clock = lambda: time.time() - 7200.0
        yield found


def hold(server: ApiServer, seconds: float) -> None:
    """Node a, with room for the waiting pod w until so long from now by the server's clock."""
    room: Json = {"for": "default/w", "until": time_text(server.clock() + seconds)}
    held = gpu_node("a", [gpu(0)])
    held["metadata"]["annotations"] = {HELD_ANNOTATION: json.dumps([room])}
    for path, each in ((NODES, node("a", {WHOLE: "1"})), (PODS, pod("w", {WHOLE: "1"})), (GPU_NODES, held)):
        server.store.put(path, each)
    # Pods with equal specs are explained together.
    server.store.put(PODS, pod("v", {WHOLE: "1"}, priority=0))


@pytest.mark.parametrize(
    ("seconds", "fits"),
    [
        pytest.param(3600.0, False, id="held"),
        pytest.param(-60.0, True, id="ended by the server's clock"),
    ],
)
def test_rooms_count_by_the_servers_clock(
    server: ApiServer, tmp_path: Path, written: Written, seconds: float, fits: bool
) -> None:
    hold(server, seconds)
    asking = ("-f", written("pod.yaml", pod("v", {WHOLE: "1"})))
    cluster = ("--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
    status = 0 if fits else 3
    explained = run("explain", *asking, *cluster)
    counted = run("capacity", *asking, *cluster)
    why = run("why", "v", "-n", "default", *cluster)
    assert (explained.exit_code, counted.exit_code, why.exit_code) == (status, status, status)
    assert (NOTE in explained.stdout, NOTE in counted.stdout) == (not fits, not fits)
    assert (WITHOUT in explained.stdout, WITHOUT in why.stdout) == (not fits, not fits)
    listed = json.loads(run("pods", *cluster, "-o", "json").stdout)["items"]
    reasons = {each["name"]: each["reason"] for each in listed}
    waits = "kube-scheduler has not asked about it"
    assert reasons == {"w": waits, "v": waits if fits else "Insufficient nvidia.com/gpu per device"}
