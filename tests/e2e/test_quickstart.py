"""The commands of the quickstart: from a checkout to a pod that kube-scheduler has bound, and its removal."""

from __future__ import annotations

import pytest

from tests.e2e.cluster.whole import PLAIN_NODES
from tests.e2e.documented import running_reader
from tests.pages import ROOT, blocks


def test_the_quickstart(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_reader(tmp_path_factory, installs=False) as reader:
        *first, remove, labels = blocks((ROOT / "docs/quickstart.md").read_text(), "sh")
        told = [reader.run_block(block) for block in first]
        assert reader.node_of("half-an-h100-node") == "h100-02", "h100-01 has only three GPUs left"
        assert "h100-02" in told[-1]
        reader.run_block(remove)
        nodes = {node["metadata"]["name"] for node in reader.api.items("/api/v1/nodes")}
        assert nodes == set(PLAIN_NODES)
        reader.run_block(labels)
