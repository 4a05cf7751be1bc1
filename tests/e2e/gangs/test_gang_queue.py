"""A gang in `scheduler-ext queue`: one row, with what is missing and its members."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.commands import run
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.gangs.gang_cluster import Gangs, running_gang_cluster


@pytest.fixture
def gangs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gangs]:
    with running_gang_cluster(tmp_path_factory.mktemp("gangs")) as installation:
        installation.await_ready()
        gangs = Gangs(installation)
        yield gangs
        gangs.close()


def queue(gangs: Gangs, *options: str) -> str:
    kubeconfig = gangs.installation.plane.kubeconfig("admin")
    done = run("queue", "--kubeconfig", kubeconfig, "-n", gangs.namespace, "--from", "extender", *options)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_gang_that_waits_is_one_row(gangs: Gangs) -> None:
    node = gangs.add_whole("a", 2)
    gangs.publish()
    gangs.create(gangs.member("first", 1, activeDeadlineSeconds=3600))
    assert gangs.await_node("first") == node
    gangs.add("train", 2)

    def row() -> Json | None:
        items = json.loads(queue(gangs, "-o", "json"))["items"]
        ready = len(items) == 1 and len(items[0]["members"]) == 2 and items[0]["start"]["byStatedLimits"]
        return items[0] if ready else None

    item = eventually(row, "the gang is one row, and its start is bounded")
    assert (item["name"], item["state"]) == ("train", "reserved")
    assert "1 of 2 members fit; 1 × nvidia.com/gpu short" in item["reason"]
    assert sorted(each["name"] for each in item["members"]) == ["train-0", "train-1"]
    assert "train (2 of a gang)" in queue(gangs, "-o", "wide")
