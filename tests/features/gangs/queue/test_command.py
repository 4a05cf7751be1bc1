"""How the queue is printed: gangs, places and starts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from click.testing import CliRunner

from scheduler_ext.features.gangs.queue import command as command
from tests.kube_objects import Json


def later(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def begins(
    earliest: float | None = None,
    latest: float | None = None,
    *,
    stated: bool = False,
    unknown: str | None = None,
) -> Json:
    return {
        "earliest": later(earliest),
        "median": None,
        "latest": later(latest),
        "byStatedLimits": stated,
        "unknown": unknown,
    }


def row(position: int = 1, name: str = "p", **more: Any) -> Json:
    return {
        "position": position,
        "namespace": "ml",
        "name": name,
        "gang": None,
        "members": [],
        "asks": "1 × nvidia.com/gpu",
        "priority": 0,
        "state": "waiting",
        "nodes": {},
        "devices": {},
        "waitingSeconds": 75,
        "reason": "no room",
        "start": begins(0, 0),
    } | more


def printed(*items: Json, wide: bool = False, namespace: str | None = None, **listing: Any) -> list[str]:
    whole: Mapping[str, Any] = {"items": list(items), "planning": True, "runTimes": 5} | listing
    show = click.Command("show", callback=lambda: command._print(dict(whole), namespace, wide=wide))
    return CliRunner().invoke(show).output.splitlines()


@pytest.mark.parametrize(
    ("earliest", "latest", "more", "expected"),
    [
        pytest.param(0, 0, {}, "now", id="a pod that fits"),
        pytest.param(1230, 7290, {}, "20m - 2h1m", id="an interval"),
        pytest.param(0, 130, {}, "within 2m", id="one that begins now"),
        pytest.param(None, 3610, {"stated": True}, "within 1h (limit)", id="stated limits"),
        pytest.param(262_810, 262_815, {}, "3d1h", id="ends that look alike"),
        pytest.param(None, None, {"unknown": "why"}, "unknown", id="nothing known"),
        pytest.param(3610, None, {"unknown": "why"}, "unknown, after 1h", id="no end"),
    ],
)
def test_starts(earliest: float | None, latest: float | None, more: Json, expected: str) -> None:
    (_, line, *_) = printed(row(start=begins(earliest, latest, **more)), wide=True)
    assert f"   {expected}   " in line


def test_a_gang_is_a_row_and_its_members_are_in_the_wide_table() -> None:
    members = [
        {
            "namespace": "ml",
            "name": f"m{i}",
            "uid": f"u{i}",
            "state": "nominated",
            "node": f"n{i}",
            "reason": "",
        }
        for i in range(3)
    ]
    gang = row(
        name="train",
        gang={"source": "annotation", "name": "train"},
        members=members,
        nodes={"n0": 2, "n1": 1},
    )
    lines = printed(gang)
    assert "train (3 of a gang)" in lines[1]
    assert "  2 nodes  " in lines[1]
    assert len(lines) == 2
    wide = printed(gang, wide=True)
    assert [line.split()[:4] for line in wide[2:]] == [
        ["ml", f"m{i}", "nominated", f"n{i}"] for i in range(3)
    ]


def test_reasons_of_unknown_starts_are_counted_below() -> None:
    unknown = begins(unknown="a reason")
    lines = printed(row(1, start=unknown), row(2, start=unknown), row(3, start=begins(unknown="another")))
    assert lines[-2:] == ["Note: 2 starts are unknown: a reason", "Note: 1 start is unknown: another"]


def test_one_namespace_needs_no_column() -> None:
    assert "NAMESPACE" not in printed(row(), namespace="ml")[0]
