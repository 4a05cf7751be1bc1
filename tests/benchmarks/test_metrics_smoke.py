"""The benchmark of scrapes end to end, on a small cluster: its counts are correct."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.metrics import measure, write_cluster
from tests.cluster.large import large


@pytest.mark.process
def test_a_level_of_detail_is_measured(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.json"
    write_cluster(inventory, 3)
    device, cluster = (measure(detail, inventory, tmp_path, 1) for detail in ("device", "cluster"))
    assert device.keys() == cluster.keys()
    # Five of memory and six readings for each GPU; five of GPUs and the state for each node. A model has ten,
    # and four readings.
    assert device["series"] - cluster["series"] == 3 * (11 * large.DEVICES + 5 + 1) - 14
    assert device["bytes"] > cluster["bytes"] > cluster["gzipBytes"] > 0
    assert min(row[key] for row in (device, cluster) for key in row if key.endswith("Seconds")) >= 0
