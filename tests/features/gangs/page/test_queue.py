"""The queue: order, places, starts and reasons, with and without a plan."""

from __future__ import annotations

import time
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.features.gangs.planning.plan import Entry, Plan, State
from scheduler_ext.features.gangs.serving import GangsServing
from tests.features.page.browser import NEEDS_BROWSER, Browser
from tests.features.page.conditions import RIGHT_TO_LEFT, WHOLE
from tests.features.page.page_server import PageServer
from tests.features.page.pods_cluster import IMAGE, WANTS, follow, goes_to, of, pods_server, shows
from tests.features.page.reading import rows
from tests.kube_objects import pod

pytestmark = NEEDS_BROWSER

GANG = GangKey("batch", "annotation", IMAGE)


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with pods_server() as running:
        yield running


def planned(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    members = [of("batch", pod(f"m{i}", {WHOLE: "1"})) for i in range(2)]
    follow(server, WANTS, *members, of("batch", pod(IMAGE, {WHOLE: "1"})))
    entries = [
        Entry("uid-wants", "research", "wants", State.NOMINATED, node="roomy"),
        *(
            Entry(f"uid-m{i}", "batch", f"m{i}", State.RESERVED, node="busy", gang=GANG, reason="1 of 2 fit")
            for i in range(2)
        ),
        Entry(f"uid-{IMAGE}", "batch", IMAGE, State.WAITING, reason=RIGHT_TO_LEFT),
    ]
    plan = Plan(time.time(), entries)
    (gangs,) = (each for each in server.features.features if isinstance(each, GangsServing))
    monkeypatch.setattr(gangs, "_planning", Mock(plan=Mock(return_value=plan)))


def test_the_rows_of_a_plan(page: Browser, server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    planned(server, monkeypatch)
    try:
        page.click("[name=view-queue]")
        page.eventually(lambda: len(rows(page, "queue")) == 3, "a row for a pod, a gang and a pod")
        first, gang, last = rows(page, "queue")
        assert page.text("#nodes-title") == "Queue"
        assert first[:2] == ["1", "research/wants 4 × nvidia.com/gpu · priority 9"]
        assert first[2:4] == ["nominated", "roomy"]
        assert first[5] == "now"
        assert gang[1] == f"batch/{IMAGE} 2 of a gang: batch/m0, batch/m1 1 × nvidia.com/gpu each"
        assert gang[2:4] == ["reserved", "busy × 2"]
        assert gang[6] == "1 of 2 fit"
        assert last[5].startswith("unknown")
        assert page.text("#queue caption").startswith("3 pods and gangs, in the order of the plan.")
        assert page.script("return document.querySelectorAll('#queue img').length") == 0
        page.click("#queue .pod")
        shows(page, "Pod research/wants")
    finally:
        follow(server, WANTS)


def test_without_a_plan_the_order_is_kube_schedulers(page: Browser, server: PageServer) -> None:
    later = of("batch", pod("later", {WHOLE: "1"}))
    follow(server, WANTS, later)
    try:
        goes_to(page, server, "?view=queue")
        page.eventually(lambda: len(rows(page, "queue")) == 2, "both pods are listed")
        assert [row[1].split()[0] for row in rows(page, "queue")] == ["research/wants", "batch/later"]
        assert "planning is off" in page.text("#queue caption")
        page.choose("[name=namespace]", "batch")
        page.eventually(
            lambda: [row[0] for row in rows(page, "queue")] == ["2"], "with its place in the whole queue"
        )
    finally:
        follow(server, WANTS)


def test_an_empty_queue(page: Browser, server: PageServer) -> None:
    follow(server)
    try:
        goes_to(page, server, "?view=queue")
        page.eventually(lambda: "No pod waits for a GPU." in page.text("#queue"), "it says so")
    finally:
        follow(server, WANTS)
