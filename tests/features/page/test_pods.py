"""The dialog about a pod, and the links between pods, nodes and GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

import pytest

from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.in_words import why_in_words
from scheduler_ext.wire.config import Configuration
from tests.features.page.browser import NEEDS_BROWSER, Browser
from tests.features.page.conditions import WHOLE
from tests.features.page.page_server import PageServer
from tests.features.page.pods_cluster import WANTS, follow, follows, goes_to, of, pods_server, shows
from tests.kube_objects import gpu, gpu_node, holder, pod

pytestmark = NEEDS_BROWSER

# As WebDriver names them.
ENTER, ESCAPE = "\ue007", "\ue00c"
FOCUS = "return document.activeElement.innerText"


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with pods_server() as running:
        yield running


def address(page: Browser) -> str:
    return str(page.script("return location.hash"))


def test_a_waiting_pod_opens_the_words_of_why(page: Browser, server: PageServer) -> None:
    page.click("#pending .pod")
    shows(page, "Pod research/wants", "As of")
    assert address(page) == "#pod=research/wants"
    answer = Explainer(server, server.extender.record, Configuration()).of_name("research", "wants")
    words, shown = why_in_words(answer), page.text("dialog")
    decided = re.sub(r"(\d+)T([\d:]+)Z", r"\1 \2 UTC", words.decisions[0])
    said = [*words.verdict, answer["nearest"]["text"], *answer["advice"], decided]
    assert answer["advice"]
    assert [each for each in said if each not in shown] == []
    assert "3 nodes\nInsufficient nvidia.com/gpu per device" in shown
    assert "4 × nvidia.com/gpu" in shown
    assert page.script("return document.querySelectorAll('dialog tbody tr').length") == 4
    assert page.text("dialog tbody th") == "roomy\nA100-80GB", "the nearest node comes first"
    assert page.text("dialog .reasons code") == "kubectl -n research describe pod wants"


def test_links_lead_from_pod_to_node_to_gpu_and_back_leads_home(page: Browser) -> None:
    page.click("#pending .pod")
    shows(page, "Pod research/wants", "As of")
    follows(page, "busy")
    shows(page, "Node busy", "research/train")
    assert page.script(FOCUS) == "Node busy", "the ear hears where it is"
    follows(page, "research/train")
    shows(page, "Pod research/train", "30.0 GiB", "80.0 GiB", "GPU 1 GPU-train", "No decision is recorded")
    assert "Fits nowhere" not in page.text("dialog")
    follows(page, "GPU 1")
    shows(page, "Node busy", "GPU-train")
    assert address(page) == "#node=busy&gpu=1"
    assert "GPU-train" in page.text("dialog .aimed")
    assert page.script(FOCUS) == "1", "the focus is on the GPU"
    for title in ("Pod research/train", "Node busy", "Pod research/wants"):
        page.script("history.back()")
        shows(page, title)
    page.script("history.back()")
    page.eventually(lambda: page.text("dialog[open]") == "", "the dialog is closed")


def test_times_are_of_one_zone_and_say_which(page: Browser, server: PageServer) -> None:
    page.devtools("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    try:
        goes_to(page, server, "#pod=research/wants")
        shows(page, "Pod research/wants", "since 2026-11-01 05:30:00 UTC+5:30")
        found = re.search(r"Asked once at (\S+ \S+) UTC\+5:30: of 2", page.text("dialog"))
        assert found
        shown = datetime.fromisoformat(f"{found[1]}+05:30")
        record = server.extender.record.of("research", "wants")
        assert record is not None
        assert shown.timestamp() == int(record.at)
        stamps = re.findall(r"\d\d:\d\d:\d\d.*", page.text("dialog"))
        assert [each for each in stamps if " UTC+5:30" not in each] == []
        assert "times are UTC+5:30" in page.text("#decisions")
        assert "times are UTC+5:30" in page.text("#foot")
    finally:
        page.devtools("Emulation.setTimezoneOverride", timezoneId="")


def test_a_pod_opens_by_keyboard_and_closed_it_returns_the_focus(page: Browser) -> None:
    page.script("document.querySelector('#pending .pod').focus()")
    page.press(ENTER)
    shows(page, "Pod research/wants", "As of")
    assert page.script(FOCUS) == "Pod research/wants", "the focus is in the dialog"
    page.press(ESCAPE)
    page.eventually(lambda: page.text("dialog[open]") == "", "the dialog is closed")
    assert page.script(FOCUS).replace("\n", "") == "research/wants"
    page.eventually(lambda: address(page) == "", "and so is the address")
    page.script("history.back()")
    shows(page, "Pod research/wants", "As of")


@pytest.mark.parametrize(
    ("where", "title", "text"),
    [
        pytest.param("#node=busy&gpu=0", "Node busy", "GPU-train", id="a GPU"),
        pytest.param("?view=pods#pod=research%2Fwants", "Pod research/wants", "Fits nowhere", id="a pod"),
        pytest.param("#node=busy&gpu=7", "Node busy", "This node has no GPU 7.", id="no such GPU"),
    ],
)
def test_an_address_opens_it(page: Browser, server: PageServer, where: str, title: str, text: str) -> None:
    goes_to(page, server, where)
    shows(page, title, text)


def test_an_address_of_nothing_says_so(browser: Browser, server: PageServer) -> None:
    for where, text in (
        ("#node=gone", "There is no node of this name."),
        ("#pod=research/gone", "No pod of this name waits for GPUs"),
        ("#pod=gone", "It should end with #pod=NAMESPACE/NAME."),
    ):
        goes_to(browser, server, where)
        shown = text
        browser.eventually(lambda shown=shown: shown in browser.text("dialog"), text)  # type: ignore[misc]
    # The browser reports the status of the reply, and nothing else.
    assert all("the server responded with a status of 40" in each for each in browser.console())


def test_the_dialog_follows_its_pod_to_a_node(page: Browser, server: PageServer) -> None:
    goes_to(page, server, "#pod=research/wants")
    shows(page, "Pod research/wants", "Fits nowhere")
    held = [gpu(i, f"GPU-new-{i}", holders=[holder("wants", "research")]) for i in range(4)]
    arrived = of("research", pod("wants", {WHOLE: "4"}, on="large", priority=9))
    follow(server, gpu_node("large", held), arrived)
    try:
        shows(page, "Pod research/wants", "on its node", "GPU 3 GPU-new-3")
    finally:
        follow(server, WANTS)
