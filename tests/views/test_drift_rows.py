"""The drift of every node of shares, recomputed where it changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.gpu.gpu import Memory
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.promisable import drift_mib
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.extender import Extender
from scheduler_ext.views import drift_rows as drift_module
from scheduler_ext.views.drift_rows import Drift
from scheduler_ext.wire.config import Configuration
from tests.core.reported import NAMES, device, node


def using(used_mib: int, name: str = "n") -> NodeInfo:
    return replace(node(device(0, memory=Memory(80_000, 0, used_mib)), share_node=True), name=name)


def seen(*infos: NodeInfo) -> Snapshot:
    return Extender(Configuration()).replace_nodes(infos)


def test_it_follows_what_nodes_report() -> None:
    drift = Drift(NAMES)
    assert drift.by_node(None) == {}
    assert drift.by_node(seen(using(300), using(0, "m"))) == {"n": 300, "m": 0}
    assert drift.by_node(seen(using(500), using(7, "m"))) == {"n": 500, "m": 7}
    assert drift.by_node(seen(using(500))) == {"n": 500}
    assert drift.by_node(seen(using(300))) == {"n": 300}


def test_a_node_that_did_not_change_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def counted(info: NodeInfo, resources: ResourceNames) -> int:
        looked_at.append(info.name)
        return drift_mib(info, resources)

    monkeypatch.setattr(drift_module, "drift_mib", counted)
    drift, info = Drift(NAMES), using(300)
    drift.by_node(seen(info, using(1, "m")))
    drift.by_node(seen(info, using(2, "m")))
    assert sorted(looked_at) == ["m", "m", "n"]


def test_only_nodes_of_shares_drift() -> None:
    assert Drift(NAMES).by_node(seen(replace(using(300), share_node=False))) == {}
    assert Drift(NAMES).by_node(seen(NodeInfo("n", share_node=True))) == {}
