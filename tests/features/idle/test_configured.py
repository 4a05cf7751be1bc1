"""The command `idle`: prices and idle times of a configuration, and the time of a saved cluster."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.commands import CONFIGURED, WHOLE, Written, run, saved
from tests.kube_objects import gpu, gpu_node, holder, inventory, pod


def shown(written: Written, *options: str, **settings: Any) -> dict[str, Any]:
    """The answer about two pods on A100s of one node, idle for 200 and for 400 seconds."""
    devices = [gpu(i, holders=[holder(f"p{i}")], idleSeconds=200 * (i + 1)) for i in range(2)]
    pods = [pod(f"p{i}", {WHOLE: "1"}, on="n") for i in range(2)]
    for each in pods:
        each["status"]["startTime"] = "2026-01-01T00:00:00Z"
    config = written("config.yaml", CONFIGURED | settings)
    asked = ["idle", "--inventory", "-", "--config", str(config), "-o", "json", *options]
    answer: dict[str, Any] = json.loads(run(*asked, stdin=inventory(gpu_node("n", devices), *pods)).stdout)
    return answer


def test_prices_and_idle_time(written: Written) -> None:
    settings = {"values": {"A100": 10}, "cost": {"perUnit": 0.5, "currency": "EUR"}, "idle": {"after": "5m"}}
    listed = shown(written, **settings)["items"]
    assert [(each["name"], each["valuePerHour"]) for each in listed] == [("p1", 5.0)]
    assert shown(written, "-n", "elsewhere", **settings)["items"] == []


def test_times_of_a_saved_cluster_end_with_its_newest_report() -> None:
    def items(started: str) -> list[dict[str, Any]]:
        told = run("idle", "--inventory", "-", "-o", "json", stdin=saved(started)).stdout
        found: list[dict[str, Any]] = json.loads(told)["items"]
        return found

    assert items("2026-01-05T11:55:00Z") == []
    (item,) = items("2026-01-05T09:00:00Z")
    assert (item["since"], item["wastedValue"]) == ("2026-01-05T10:00:00Z", 13.8)
