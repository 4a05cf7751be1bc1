"""The command `cost`: prices and the currency of a configuration, and the time of a saved cluster."""

from __future__ import annotations

import json

from tests.cli.commands import CONFIGURED, WHOLE, Written, run, saved
from tests.kube_objects import Json, gpu, gpu_node, holder, inventory, pod


def test_prices_currency_and_idle_time(written: Written) -> None:
    devices = [gpu(i, holders=[holder(f"p{i}")], idleSeconds=200 * (i + 1)) for i in range(2)]
    pods = [pod(f"p{i}", {WHOLE: "1"}, on="n") for i in range(2)]
    for each in pods:
        each["status"]["startTime"] = "2026-01-01T00:00:00Z"
    settings = {"values": {"A100": 10}, "cost": {"perUnit": 0.5, "currency": "EUR"}, "idle": {"after": "5m"}}
    config = written("config.yaml", CONFIGURED | settings)
    asked = ("cost", "--inventory", "-", "--config", config, "-o", "json")
    found: Json = json.loads(run(*asked, stdin=inventory(gpu_node("n", devices), *pods)).stdout)
    assert (found["currency"], found["total"]["total"], found["total"]["idle"]) == ("EUR", 10.0, 5.0)


def test_times_of_a_saved_cluster_end_with_its_newest_report() -> None:
    for started, idle in (("2026-01-05T11:55:00Z", 0), ("2026-01-05T09:00:00Z", 6.9)):
        told = run("cost", "--inventory", "-", "-o", "json", stdin=saved(started)).stdout
        assert json.loads(told)["total"]["idle"] == idle
