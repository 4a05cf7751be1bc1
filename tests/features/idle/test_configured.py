"""`cost` and `idle` by a configuration: prices, the currency, and the time after which a pod is idle."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.commands import CONFIGURED, WHOLE, Written, run
from tests.kube_objects import gpu, gpu_node, holder, inventory, pod


def shown(written: Written, command: str, *options: str, **settings: Any) -> dict[str, Any]:
    """The answer about two pods on A100s of one node, idle for 200 and for 400 seconds."""
    devices = [gpu(i, holders=[holder(f"p{i}")], idleSeconds=200 * (i + 1)) for i in range(2)]
    pods = [pod(f"p{i}", {WHOLE: "1"}, on="n") for i in range(2)]
    for each in pods:
        each["status"]["startTime"] = "2026-01-01T00:00:00Z"
    config = written("config.yaml", CONFIGURED | settings)
    asked = [command, "--inventory", "-", "--config", str(config), "-o", "json", *options]
    answer: dict[str, Any] = json.loads(run(*asked, stdin=inventory(gpu_node("n", devices), *pods)).stdout)
    return answer


def test_prices_currency_and_idle_time(written: Written) -> None:
    settings = {"values": {"A100": 10}, "cost": {"perUnit": 0.5, "currency": "EUR"}, "idle": {"after": "5m"}}
    found = shown(written, "cost", **settings)
    assert (found["currency"], found["total"]["total"], found["total"]["idle"]) == ("EUR", 10.0, 5.0)
    listed = shown(written, "idle", **settings)["items"]
    assert [(each["name"], each["valuePerHour"]) for each in listed] == [("p1", 5.0)]
    assert shown(written, "idle", "-n", "elsewhere", **settings)["items"] == []
