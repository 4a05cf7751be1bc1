"""The page on a phone, a node's details there and elsewhere, and the values that only some agents report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.features.page.browser import NEEDS_BROWSER, Browser
from tests.features.page.conditions import WAITING, WHOLE
from tests.features.page.page_server import PageServer
from tests.features.page.reading import card, details, opened
from tests.kube_objects import SHARE, Json, gpu, gpu_node, holder, node, pod

pytestmark = NEEDS_BROWSER

LONG_NAME = "a-training-job-with-a-long-name-0"
WORKING: Json = {"powerWatts": 650, "throttleReasons": ["PowerCap"], "idleSeconds": 0}
IDLE = {"totalMiB": 81920, "reservedMiB": 620}
MEMORY = {"totalMiB": 81920, "reservedMiB": 620, "usedMiB": 40960, "unaccountedMiB": 1024}


@pytest.fixture(scope="module")
def some() -> Iterator[PageServer]:
    train = pod(LONG_NAME, {"nvidia.com/gpu": "1"}, on="measured")
    train["metadata"] |= {"namespace": "a-namespace-with-a-long-name", "uid": "train"}
    held = [holder(LONG_NAME, "a-namespace-with-a-long-name", uid="train")]
    devices = [
        gpu(0, memory=MEMORY, holders=held, utilizationPercent=87, temperatureCelsius=61, **WORKING),
        gpu(1, utilizationPercent=0, idleSeconds=5400),
    ]
    nodes = (gpu_node("measured", devices), gpu_node("plain", [gpu(0, "GPU-p", memory=IDLE)]), train)
    with PageServer((), WAITING).follow(*nodes) as running:
        yield running


def test_on_a_phone_waiting_pods_come_first_and_details_need_no_scroll_sideways(
    browser: Browser, some: PageServer
) -> None:
    browser.resize(390, 844)
    opened(browser, some.url)
    order = browser.script(
        "return [...document.querySelectorAll('#waiting, #totals, #map')].map((e) => e.id)"
    )
    assert order[0] == "waiting", "for Tab and for the ear"
    assert "research" in browser.text("#waiting")
    assert LONG_NAME in details(browser, "measured")
    wide = "const e = document.getElementById('detail'); return e.scrollWidth - e.clientWidth"
    assert browser.script(wide) == 0


def test_use_and_temperature_are_shown_where_reports_have_them(browser: Browser, some: PageServer) -> None:
    opened(browser, some.url)
    assert "87 % busy. 61 °C. 650 W." in card(browser, "measured")
    assert "0 % busy. Has computed nothing for 2 h." in card(browser, "measured")
    assert "busy" not in card(browser, "plain")
    assert "% busy" in browser.text("#nodes-legend")
    shown = details(browser, "measured")
    assert [
        text
        for text in ("Busy", "87 %", "idle for 2 h", "61 °C", "650 W", "power limit")
        if text not in shown
    ] == []
    browser.script("document.querySelector('dialog').close()")
    shown = details(browser, "plain")
    assert [text for text in ("Busy", "Temperature", "Power") if text in shown] == [], "no empty columns"
    assert "0.6 GiB kept back" in shown, "by the driver"


def first_gpu(page: Browser, name: str) -> tuple[str, str]:
    """What is requested of the first GPU of a node, and the pods on it."""
    page.script("location.hash = `node=${arguments[0]}`", name)
    page.eventually(lambda: page.text("dialog h2") == f"Node {name}" and page.text("td.held-by") != "", name)
    return page.text("dialog td.figure"), page.text("td.held-by")


def test_the_parts_of_holders_are_the_requested_memory(browser: Browser) -> None:
    serving = pod("serves", {SHARE: "8192"}, on="shares")
    serving["metadata"]["annotations"] = {"devices.gpu.scheduler-ext.io/main": "GPU-shares-0"}
    whole, part = (
        gpu_node(name, [gpu(0, f"GPU-{name}", memory=IDLE, holders=[holder(name)])], sharing=sharing)
        for name, sharing in (("whole", None), ("part", {"strategy": "mps", "replicas": 4}))
    )
    labels = {"gpu.scheduler-ext.io/sharing": "memory"}
    shares = gpu_node("shares", [gpu(0, "GPU-shares-0")]), node("shares", {SHARE: "81920"}, labels=labels)
    running = [pod(name, {WHOLE: "1"}, on=name) for name in ("whole", "part")]
    with PageServer().follow(whole, part, *shares, *running, serving) as server:
        opened(browser, server.url)
        for name, requested, held in (
            ("whole", "79.4 GiB", "default/whole whole GPU"),
            ("part", "0 GiB", "default/part replica"),
            ("shares", "8.0 GiB", "default/serves (main) 8.0 GiB"),
        ):
            assert first_gpu(browser, name) == (requested, held)
