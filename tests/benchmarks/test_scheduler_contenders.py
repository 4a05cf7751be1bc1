"""The inputs of the scheduler suite's contenders: configurations, nodes, inventory, pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.scheduler.contenders import (
    FEW_NAMES,
    NOOP_FEW,
    SHIPPED,
    scheduler_configuration,
)
from benchmarks.scheduler.nodes import gpus, node_names, node_objects_of, write_idle_inventory
from benchmarks.scheduler.pods import pods
from scheduler_ext.core.request.quantity import parse_quantity
from scheduler_ext.extender.extender import Extender
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.wire.config import Configuration

NODES = 24
KUBECONFIG = Path("/somewhere/kubeconfig")


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:1234"], ids=["none", "an extender"])
def test_only_the_client_the_election_and_the_extender_are_altered(url: str | None) -> None:
    shipped = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    ours = scheduler_configuration(KUBECONFIG, url)
    altered = {key for key in shipped.keys() | ours.keys() if shipped.get(key) != ours.get(key)}
    assert altered == {"clientConnection", "leaderElection", "extenders"}
    assert ours["leaderElection"] == {"leaderElect": False}
    assert ours["clientConnection"]["kubeconfig"] == str(KUBECONFIG)
    assert ours.get("extenders") == (url and [{**shipped["extenders"][0], "urlPrefix": url}])


def test_noop_100_returns_as_many_names_as_the_extender_does_by_default() -> None:
    assert Configuration().policy().max_candidates == FEW_NAMES
    assert NOOP_FEW.noop_names == FEW_NAMES
    assert NOOP_FEW.name == f"noop-{FEW_NAMES}"


def test_the_api_servers_nodes_and_the_inventory_say_the_same(tmp_path: Path) -> None:
    write_idle_inventory(tmp_path / "inventory.json", NODES, seed=7)
    items = json.loads((tmp_path / "inventory.json").read_text(encoding="utf-8"))["items"]
    known = {item["metadata"]["name"]: item for item in items if item["kind"] == "Node"}
    created = list(node_objects_of(0, NODES, seed=7))
    assert [node["metadata"]["name"] for node in created] == list(known) == node_names(NODES)
    for node in created:
        assert "uid" not in node["metadata"]
        status = node["status"]
        assert status == known[node["metadata"]["name"]]["status"]
        assert status["capacity"] == status["allocatable"]
        assert status["allocatable"]["nvidia.com/gpu"] == "8"
    assert gpus(NODES) == 8 * NODES


def test_every_node_is_in_a_state_of_its_own(tmp_path: Path) -> None:
    write_idle_inventory(tmp_path / "inventory.json", NODES, seed=42)
    config = Configuration()
    extender = Extender(config)
    InventorySource(tmp_path / "inventory.json", extender, config.resource_names()).load()
    assert extender.snapshot is not None
    assert len(extender.snapshot.states) == NODES + 1


@pytest.mark.parametrize(
    ("alike", "wished"), [pytest.param(True, 1, id="alike"), pytest.param(False, 40, id="no two alike")]
)
def test_pods_ask_as_they_should(alike: bool, wished: int) -> None:
    (profile,) = scheduler_configuration(KUBECONFIG, None)["profiles"]
    described = list(pods(40, seed=1, alike=alike))
    bodies = {json.dumps(pod).replace(pod["metadata"]["name"], "NAME") for pod in described}
    wishes = {pod["metadata"]["annotations"]["gpu.scheduler-ext.io/min-free-memory"] for pod in described}
    images = {pod["spec"]["containers"][0]["image"] for pod in described}
    assert len(bodies) == len(wishes) == len(images) == wished
    assert len({pod["metadata"]["name"] for pod in described}) == 40
    assert {pod["spec"]["schedulerName"] for pod in described} == {profile["schedulerName"]}
    assert {asked(pod) for pod in described} == {1}
    assert {asked(pod) for pod in pods(3, seed=1, alike=alike, gpus=8)} == {8}


def asked(pod: dict[str, Any]) -> float:
    """The whole GPUs of a pod."""
    resources = [container["resources"]["requests"] for container in pod["spec"]["containers"]]
    amounts = [parse_quantity(each.get("nvidia.com/gpu", "0")) for each in resources]
    return float(sum(amounts))
