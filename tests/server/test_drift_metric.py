"""The drift metric: GPU memory used beyond what was promised, by node of shares."""

from __future__ import annotations

from dataclasses import replace

from scheduler_ext.core.gpu.gpu import Memory
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.server.metrics.registry import Metrics
from scheduler_ext.wire.config import Configuration
from tests.core.reported import device, node
from tests.server.test_gpu_metrics import Fixed, scraped


def using(used_mib: int, name: str = "n") -> NodeInfo:
    return replace(node(device(0, memory=Memory(80_000, 0, used_mib)), share_node=True), name=name)


def drift(source: Fixed, metrics: Metrics, *infos: NodeInfo) -> dict[str, float]:
    source.set([*infos])
    found = scraped(metrics).get("gpu_extender_ledger_drift_mib", {})
    return {dict(labels)["node"]: value for labels, value in found.items()}


def test_the_drift_follows_the_reports() -> None:
    source = Fixed()
    metrics = Metrics(source, Configuration())
    assert drift(source, metrics, using(300), using(0, "m")) == {"n": 300, "m": 0}
    assert drift(source, metrics, using(500), using(7, "m")) == {"n": 500, "m": 7}
    assert drift(source, metrics, using(500)) == {"n": 500}
    assert drift(source, metrics, using(300)) == {"n": 300}


def test_only_nodes_of_shares_drift() -> None:
    source = Fixed()
    metrics = Metrics(source, Configuration())
    assert drift(source, metrics, replace(using(300), share_node=False)) == {}
    assert drift(source, metrics, NodeInfo("n", share_node=True)) == {}
