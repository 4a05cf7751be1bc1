"""The label that brings an agent to nodes that have a device plugin alone: added once, and never over another
value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from scheduler_ext.cluster import agent_labels as labels_module
from scheduler_ext.cluster.agent_labels import AgentLabels
from scheduler_ext.cluster.client.retry import Backoff
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.wire.config import Configuration, InventorySection
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_requests import Match, Request
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.living import WHOLE, Living
from tests.kube_objects import Json, node

AGENT = "gpu.scheduler-ext.io/agent"
EVENTS = "/apis/events.k8s.io/v1/events"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels_module, "EVERY_S", 0.01)
    monkeypatch.setattr(labels_module, "SETTLE_S", 0.0)
    monkeypatch.setattr(labels_module, "Backoff", lambda: Backoff(0.01, 0.02))


def label(living: Living, name: str) -> str | None:
    """The label's value on a node."""
    metadata: Json = living.server.store.get(NODES, name).object()["metadata"]
    value: str | None = metadata.get("labels", {}).get(AGENT)
    return value


def labels_written(name: str = "") -> Match:
    """The writes of the label, on a node or on any."""

    def is_written(request: Request) -> bool:
        return (
            request.method == "PATCH"
            and request.path.endswith(f"/nodes/{name}" if name else "")
            and "labels" in request.json()["metadata"]
        )

    return is_written


def reasons(living: Living) -> set[tuple[str, str]]:
    """The reason of each Event about a node, with the node's name."""
    found = living.server.store.objects(EVENTS)
    return {(each["reason"], each["regarding"]["name"]) for each in found}


def written(living: Living) -> dict[str, int]:
    counted = living.live.writers.agent_labels.labels
    return {result: counted[result] for result in ("written", "refused", "failed")}


def test_nodes_that_nothing_brings_an_agent_to_are_labelled(living: Living) -> None:
    """Once, and no others: neither nodes that a label marks, nor those of other vendors, nor those without
    GPUs, nor those that an agent reports on."""
    others: dict[str, tuple[Json, Json]] = {
        "operator": ({WHOLE: "8"}, {"nvidia.com/gpu.present": "true"}),
        "unwanted": ({WHOLE: "8"}, {AGENT: "false"}),
        "amd": ({"amd.com/gpu": "8"}, {}),
        "cpu": ({}, {}),
    }
    for name, (amounts, labels) in others.items():
        living.server.store.put(NODES, node(name, amounts, labels=labels))
    plain = {
        "plain": {WHOLE: "8"},
        "shared": {"nvidia.com/gpu.shared": "4"},
        "mig": {"nvidia.com/mig-1g.10gb": "7"},
        "for-shares": {},
    }
    for name, amounts in plain.items():
        sharing = {"gpu.scheduler-ext.io/sharing": "memory"} if name == "for-shares" else {}
        labels = {"kubernetes.io/hostname": name} | sharing
        living.server.store.put(NODES, node(name, amounts, labels=labels))
    living.start()
    eventually(lambda: {name: label(living, name) for name in plain} == dict.fromkeys(plain, "true"))
    eventually(lambda: {("GPUNodeLabelled", name) for name in plain} <= reasons(living))
    assert {name: label(living, name) for name in (*others, "a", "b")} == {
        "unwanted": "false",
        **dict.fromkeys(("operator", "amd", "cpu", "a", "b")),
    }
    assert len(living.server.log.all(labels_written())) == len(plain)
    assert written(living) == {"written": len(plain), "refused": 0, "failed": 0}
    assert "GPUNodeUnlabelled" not in {reason for reason, _ in reasons(living)}


def test_no_label_is_written_where_the_administrator_wants_none(living: Living) -> None:
    """The Event then names the setting and the command."""
    living.server.store.put(NODES, node("plain", {WHOLE: "8"}))
    config = Configuration(inventory=InventorySection(label_nodes=False))
    living.configure(config)
    living.start()
    eventually(lambda: ("GPUNodeUnlabelled", "plain") in reasons(living))
    (event,) = living.server.store.objects(EVENTS)
    assert "kubectl label node plain gpu.scheduler-ext.io/agent=true" in event["note"]
    assert event["note"].endswith("the extender does not label it, because inventory.labelNodes is false")
    assert not living.server.log.all(labels_written())


def test_a_missing_right_is_named_once_and_the_event_has_the_command(
    living: Living, caplog: pytest.LogCaptureFixture
) -> None:
    living.server.store.put(NODES, node("plain", {WHOLE: "8"}))
    forbidden = Refuse(403, "Forbidden", "may not patch nodes")
    refusal = living.server.faults.place(forbidden, labels_written(), times=None)
    living.start()
    eventually(lambda: written(living)["refused"] >= 3)
    eventually(lambda: ("GPUNodeUnlabelled", "plain") in reasons(living))
    assert [each.levelname for each in caplog.records if "is not labelled" in each.message] == ["WARNING"]
    refusal.lift()
    eventually(lambda: label(living, "plain") == "true")
    eventually(lambda: living.live.writers.agent_labels.why_not() is None)


class Labels:
    """The writer alone, with a node of a device plugin that was seen without labels."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.looks = 0
        version = server.store.get(NODES, "plain").object()["metadata"]["resourceVersion"]
        self.facts = {"plain": NodeFacts("plain", {}, (), unschedulable=False, version=version)}
        self.writer = AgentLabels(transport, self._is_active, True, self.facts, lambda _: None)
        self.see("plain")

    def _is_active(self) -> bool:
        self.looks += 1
        return True

    def see(self, *names: str) -> None:
        """Nodes that hand out GPUs without a label."""
        record = NodeRecord("u", has_nvidia=True)
        infos: dict[str, NodeInfo | None] = {name: NodeInfo(name, agent_label="lacks") for name in names}
        assert self.writer.follow(infos, dict.fromkeys(names, record)) == set(names)

    @contextmanager
    def running(self) -> Iterator[None]:
        self.writer.start()
        try:
            yield
        finally:
            self.writer.stop(60)
            assert not self.writer.is_alive


def test_the_value_of_an_administrator_stays_though_the_watch_is_late(
    server: ApiServer, transport: Transport
) -> None:
    server.store.put(NODES, node("plain", {WHOLE: "8"}))
    labels = Labels(server, transport)
    server.store.put(NODES, node("plain", {WHOLE: "8"}, labels={AGENT: "false"}))
    with labels.running():
        server.log.wait_for(labels_written("plain"))
        looks = labels.looks
        eventually(lambda: labels.looks > looks + 3)
    assert server.store.get(NODES, "plain").object()["metadata"]["labels"][AGENT] == "false"
    assert dict(labels.writer.labels) == {}, "a conflict is no failure"


def test_a_new_node_has_time_to_get_its_labels(
    server: ApiServer, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels_module, "SETTLE_S", 3600.0)
    server.store.put(NODES, node("plain", {WHOLE: "8"}))
    labels = Labels(server, transport)
    with labels.running():
        eventually(lambda: labels.looks > 3)
    assert not server.log.all(labels_written())


def test_few_nodes_are_labelled_at_once(
    server: ApiServer, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each label starts a pod."""
    monkeypatch.setattr(labels_module, "_MOST", 2)
    names = ["plain", *(f"plain-{i}" for i in range(4))]
    server.store.put_all(NODES, [node(name, {WHOLE: "8"}) for name in names])
    labels = Labels(server, transport)
    facts = labels.facts["plain"]
    labels.facts.update({name: replace(facts, name=name, version="") for name in names})
    labels.see(*names)
    for count in (2, 4, 5):
        labels.writer._label_all()
        assert len(server.log.all(labels_written())) == count
