"""Idle GPUs and pods on the page: a mark, a filter, and the time in the list of pods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_ext.wire.config import Configuration, IdleSection
from tests.features.page.browser import NEEDS_BROWSER, Browser
from tests.features.page.page_server import PageServer
from tests.features.page.reading import card, details, names, opened
from tests.kube_idle import CLUSTER, WHOLE, running
from tests.kube_objects import gpu, gpu_node, node

pytestmark = NEEDS_BROWSER


@pytest.fixture(scope="module")
def some() -> Iterator[PageServer]:
    """The cluster of tests/kube_idle.py: the nodes h100 and t4 have an idle GPU each, the node plain none."""
    with PageServer().follow(*CLUSTER) as running:
        yield running


def test_an_idle_gpu_is_marked(browser: Browser, some: PageServer) -> None:
    opened(browser, some.url)
    assert "Idle: its pods have computed nothing for 2 h." in card(browser, "h100")
    assert "1 idle" in card(browser, "h100")
    assert card(browser, "t4").count("Idle:") == 1, "its second GPU has a pod that has just come"
    assert "idle" not in card(browser, "plain").lower()


def test_a_gpu_on_which_only_others_compute_has_no_idle_time_of_its_own(browser: Browser) -> None:
    """A process of the host is busy, and the pod is not."""
    mine = {"uid": "uid-lazy", "memoryMiB": 100, "idleSeconds": 7200}
    shared = gpu_node("shared", [gpu(0, idleSeconds=5, utilizationPercent=90, holders=[mine])])
    lazy = running("lazy", "shared", 90_000)
    with PageServer().follow(shared, node("shared", {WHOLE: "1"}), lazy) as found:
        opened(browser, found.url)
        assert "90 % busy. Idle: its pods have computed nothing." in card(browser, "shared")


def test_a_filter_of_idle_nodes_and_the_list_of_pods_with_times(browser: Browser, some: PageServer) -> None:
    opened(browser, some.url)
    assert sorted(names(browser)) == ["h100", "plain", "t4"]
    browser.script("document.querySelector('[name=idle]').click()")
    browser.eventually(lambda: sorted(names(browser)) == ["h100", "t4"], "the others are hidden")
    browser.open(f"{some.url}?view=pods")
    browser.eventually(lambda: "notebook" in browser.text("#running"), "the pods are listed")
    lines = browser.text("#running")
    assert "idle for 2 h" in lines
    assert lines.count("idle for") == 2


@pytest.mark.parametrize(
    ("after", "shown"),
    [
        pytest.param("30m", False, id="a pause that is shorter than idle.after is not worth a word"),
        pytest.param("10m", True, id="one as long as idle.after is"),
    ],
)
def test_pauses_are_shown_from_the_configured_time_on(browser: Browser, after: str, shown: bool) -> None:
    config = Configuration(idle=IdleSection(after=after))
    paused = gpu_node("paused", [gpu(0, utilizationPercent=0, idleSeconds=600)])
    with PageServer(config=config).follow(paused) as server:
        opened(browser, server.url)
        assert ("Has computed nothing for 10 min." in card(browser, "paused")) is shown
        assert ("idle for 10 min" in details(browser, "paused")) is shown
        assert "0 %" in details(browser, "paused")
