"""The list of idle pods, and what is kept of it between two looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.gpu.gpu import Holder
from scheduler_ext.core.gpu.readings import NodeReadings, Readings
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.pod_facts import FactsOfPods, PodFacts
from scheduler_ext.core.node.state import resolve
from scheduler_ext.features.idle import idle_pods as idle_pods_module
from scheduler_ext.features.idle.idle import Idleness, idleness
from scheduler_ext.features.idle.idle_pods import IdleNodes, idle_pod_list
from scheduler_ext.wire.config import Configuration
from tests.core.reported import WHOLE, bound, device, node, wants

NOW = 1_700_000_000.0
AFTER_S = 1800.0
LONG_AGO = PodFacts("Job/train", NOW - 90_000)


def cluster(*pods: tuple[str, str, str, int]) -> tuple[list[NodeInfo], dict[str, tuple[Readings, ...]]]:
    """A node for each pod: its namespace and name, its node, and since when its GPU is idle."""
    infos: list[NodeInfo] = []
    readings: dict[str, tuple[Readings, ...]] = {}
    for namespace, name, on, idle_s in pods:
        pod = bound(name, wants(1, WHOLE), namespace=namespace)
        info = node(device(0, uuid=f"GPU-{on}", holders=(Holder(uid=pod.uid),)), pods=(pod,))
        infos.append(replace(info, name=on))
        readings[on] = (Readings(f"GPU-{on}", idle_s=idle_s),)
    return infos, readings


def listed(
    infos: Sequence[NodeInfo],
    readings: NodeReadings,
    facts: FactsOfPods,
    namespace: str | None = None,
) -> dict[str, Any]:
    config = Configuration()
    nodes = [resolve(info, config.resource_names(), config.memory.headroom_percent) for info in infos]
    return idle_pod_list(nodes, config, readings, facts, NOW, namespace)


def test_the_most_wasteful_pod_comes_first() -> None:
    infos, readings = cluster(
        ("lab", "one", "a", 3600),
        ("lab", "busy", "b", 5),
        ("web", "two", "c", 7200),
        ("lab", "three", "d", 1800),
    )
    infos[2] = replace(infos[2], value=10.0)
    facts = {f"uid-{name}": LONG_AGO for name in ("one", "busy", "two", "three")}
    listing = listed(infos, readings, facts)
    assert [(item["name"], item["valuePerHour"], item["wastedValue"]) for item in listing["items"]] == [
        ("two", 10.0, 20.0),
        ("one", 3.4, 3.4),
        ("three", 3.4, 1.7),
    ]
    assert listing["namespaces"] == [
        {"namespace": "web", "pods": 1, "gpus": 1.0, "valuePerHour": 10.0, "wastedValue": 20.0},
        {"namespace": "lab", "pods": 2, "gpus": 2.0, "valuePerHour": 6.8, "wastedValue": 5.1},
    ]
    first = listing["items"][0]
    assert (first["owner"], first["since"]) == ("Job/train", "2023-11-14T20:13:20Z")
    of_lab = listed(infos, readings, facts, "lab")
    assert {item["namespace"] for item in of_lab["items"]} == {"lab"}
    assert [each["namespace"] for each in of_lab["namespaces"]] == ["lab"]


def test_pods_that_cannot_be_judged_are_counted() -> None:
    infos, readings = cluster(("lab", "one", "a", 3600), ("web", "two", "b", 3600))
    facts = {"uid-one": LONG_AGO, "uid-two": LONG_AGO}
    assert listed(infos, {"a": readings["a"]}, facts)["unknownPods"] == 1
    assert listed(infos, {}, facts, "lab")["unknownPods"] == 1


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes that are judged, in order."""
    nodes: list[str] = []

    def noting(info: NodeInfo, readings: Sequence[Readings], *rest: object) -> Idleness:
        nodes.append(info.name)
        return idleness(info, readings, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(idle_pods_module, "idleness", noting)
    return nodes


def names(found: dict[str, Idleness]) -> list[str]:
    return sorted(idle.pod.name for each in found.values() for idle in each.pods)


def test_a_node_is_judged_again_only_if_something_about_it_changed(judged: list[str]) -> None:
    infos, readings = cluster(("lab", "one", "a", 3600), ("lab", "two", "b", 3600))
    facts = {"uid-one": LONG_AGO, "uid-two": LONG_AGO}
    kept = IdleNodes(AFTER_S)
    assert names(kept.of(infos, readings, facts, NOW)) == ["one", "two"]
    judged.clear()
    assert names(kept.of(infos, readings, facts, NOW + 5)) == ["one", "two"]
    assert judged == []
    readings["b"] = (Readings("GPU-b", idle_s=3605),)
    assert names(kept.of(infos, readings, facts, NOW + 6)) == ["one", "two"]
    assert judged == ["b"]
    readings["b"] = (Readings("GPU-b", idle_s=0),)
    found = kept.of(infos, readings, facts, NOW + 6)
    assert (names(found), found["b"].known) == (["one"], frozenset({"GPU-b"}))
    infos[0] = replace(infos[0], freshness="Stale")
    assert names(kept.of(infos, readings, facts, NOW + 7)) == []
    assert judged == ["b", "a"]


def test_a_pod_becomes_idle_when_it_has_run_for_long_enough(judged: list[str]) -> None:
    """No report and no change of the pod says so."""
    infos, readings = cluster(("lab", "one", "a", 90_000))
    facts = {"uid-one": PodFacts("", NOW - 100)}
    kept = IdleNodes(AFTER_S)
    for later_s, expected in ((0.0, []), (1699.0, []), (1700.0, ["one"]), (1800.0, ["one"])):
        assert names(kept.of(infos, readings, facts, NOW + later_s)) == expected
    assert judged == ["a", "a"]
    facts["uid-one"] = PodFacts("", NOW + 1800)
    assert names(kept.of(infos, readings, facts, NOW + 1801)) == []
