"""The golden answer of `autoscaler-config`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import Written
from tests.cli.golden_answers import answers
from tests.features.autoscaling.node_groups.tables import SHARES, group, table_bytes


def test_the_answer_is_the_golden_one(cluster: Path, written: Written) -> None:
    files = {"GROUPS": written("groups.json", table_bytes(group(**SHARES)))}
    asked = ["--for", "cluster-autoscaler", "-f", "GROUPS"]
    found, golden = answers(__file__, "autoscaler-config", asked, cluster, written, files=files)
    assert found == golden
