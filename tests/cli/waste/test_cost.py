"""`scheduler-ext cost` on files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from scheduler_ext.cli import main
from tests.kube_objects import Json, gpu, gpu_node, holder, inventory, pod
from tests.pages import SAMPLE

WHOLE = "nvidia.com/gpu"


def cost(*options: str, given: bytes | None = None) -> Result:
    source = "-" if given is not None else str(SAMPLE)
    return CliRunner().invoke(main, ["cost", "--inventory", source, *options], input=given)


def parsed(*options: str, given: bytes | None = None) -> dict[str, Any]:
    result = cost("-o", "json", *options, given=given)
    assert (result.exit_code, result.exception) == (0, None)
    found: dict[str, Any] = json.loads(result.output)
    return found


def held(*idle_s: int | None) -> bytes:
    devices: list[Json] = [
        gpu(i, holders=[holder(f"p{i}")], idleSeconds=each) for i, each in enumerate(idle_s)
    ]
    pods = [pod(f"p{i}", {WHOLE: "1"}, on="n") for i in range(len(idle_s))]
    for each in pods:
        each["status"]["startTime"] = "2026-01-01T00:00:00Z"
    return inventory(gpu_node("n", devices), *pods)


def test_the_parts_of_the_sample_cluster_are_its_whole_value() -> None:
    found = parsed()
    assert (found["kind"], found["currency"]) == ("Cost", "USD")
    total = found["total"]
    parts = ("allocated", "free", "stranded", "unavailable")
    assert abs(sum(total[part] for part in parts) - total["total"]) < 1e-4
    for name in (*parts, "total", "idle", "unmeasured"):
        assert abs(sum(model[name] for model in found["models"]) - total[name]) < 1e-4
    assert abs(sum(each["allocated"] for each in found["namespaces"]) - total["allocated"]) < 1e-4


def test_a_note_says_that_idle_times_are_unknown() -> None:
    assert "Note: UNMEASURED is a part of ALLOCATED" in cost(given=held(None)).output
    assert "Note" not in cost(given=held(0)).output


def test_prices_currency_and_idle_time_are_configured(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "config.scheduler-ext.io/v1alpha1",
                "kind": "ExtenderConfiguration",
                "values": {"A100": 10},
                "cost": {"perUnit": 0.5, "currency": "EUR"},
                "idle": {"after": "5m"},
            }
        )
    )
    found = parsed("--config", str(config), given=held(400, 200))
    assert (found["currency"], found["total"]["total"], found["total"]["idle"]) == ("EUR", 10.0, 5.0)
