"""Rooms that a defragmentation holds in a live cluster, in answers about pods."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from scheduler_ext.wire.held_annotation import HELD_ANNOTATION
from scheduler_ext.wire.times import time_text
from tests.cli.commands import KINDS, WHOLE, Written, run, serving
from tests.kube_objects import gpu, gpu_node, node, pod

NOTE = "Note: a defragmentation holds room on a for pod default/w "


@pytest.mark.parametrize(
    ("seconds", "fits"),
    [
        pytest.param(3600.0, False, id="held"),
        pytest.param(-60.0, True, id="ended by the server's clock"),
    ],
)
def test_rooms_count_by_the_servers_clock(
    tmp_path: Path, written: Written, seconds: float, fits: bool
) -> None:
    """Node a has room for the waiting pod w until so long from now."""
    held = gpu_node("a", [gpu(0)])
    # Pods with equal specs are explained together.
    pods = pod("w", {WHOLE: "1"}), pod("v", {WHOLE: "1"}, priority=0)
    with serving() as server:
        # Far from the clock of this machine.
        server.clock = lambda: time.time() - 7200.0
        room = {"for": "default/w", "until": time_text(server.clock() + seconds)}
        held["metadata"]["annotations"] = {HELD_ANNOTATION: json.dumps([room])}
        for each in (node("a", {WHOLE: "1"}), *pods, held):
            server.store.put(KINDS[each["kind"]], each)
        cluster = ("--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
        asking = ("-f", written("pod.yaml", pod("v", {WHOLE: "1"})))
        done = [
            run(*asked, *cluster) for asked in (("explain", *asking), ("capacity", *asking), ("why", "v"))
        ]
    assert [each.exit_code for each in done] == [0 if fits else 3] * 3
    assert [NOTE in each.stdout for each in done[:2]] == [not fits] * 2
