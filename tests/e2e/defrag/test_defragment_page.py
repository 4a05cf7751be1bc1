"""The commands of docs/features/defrag/defragment.md, as they stand."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from scheduler_ext.wire.times import time_text
from tests.e2e.defrag.fragmented import Fragmented
from tests.e2e.documented import Reader
from tests.e2e.workload import Workload
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.release

PAGE = ROOT / "docs" / "features" / "defrag" / "defragment.md"


def test_the_page_on_defragmentation(workload: Workload, tmp_path: Path) -> None:
    with Fragmented(workload) as fragmented:
        first, second = workload.add_whole("first", 2), workload.add_whole("second", 2)
        workload.publish()
        fragmented.owned("x", first)
        # Old enough to be moved.
        started = {"status": {"startTime": time_text(time.time() - 3600)}}
        pods = f"/api/v1/namespaces/{workload.namespace}/pods"
        workload.api.patch(f"{pods}/x-0/status", started)
        fragmented.fixed(second)
        waiting = fragmented.waiting(2)
        reader = Reader(workload.installation.cluster, tmp_path)
        reader.names = {"NAMESPACE": workload.namespace, "POD": waiting}
        plan, number, saved, execute, rooms = blocks(PAGE.read_text(), "sh")
        assert f"fits on node {first} after 1 move" in reader.run_block(plan)
        assert f"on node {first} after 1 move" in reader.run_block(number)
        assert f"fits on node {first} after 1 move" in reader.run_block(saved)
        reader.run_block(execute)
        assert workload.await_node(waiting) == first
        assert reader.run_block(rooms).count("<none>") >= 2
