"""A browser, and the page in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.features.page.browser import Browser
from tests.features.page.conditions import SCRIPT, WAITING, WHOLE, infos
from tests.features.page.page_server import PageServer
from tests.features.page.reading import opened
from tests.kube_objects import names_body, pod


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One process for all tests."""
    with Browser() as opened:
        yield opened


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser with the usual window."""
    yield chromium
    # A page that stays would complain of the end of its server.
    chromium.open("about:blank")
    chromium.resize()
    chromium.console()


@pytest.fixture(scope="session")
def server() -> Iterator[PageServer]:
    with PageServer(infos(), WAITING) as running:
        for asking in (pod("fits", {WHOLE: "1"}), pod(SCRIPT, {WHOLE: "9"})):
            answer = running.extender.filter(names_body(asking, ["busy", "sick"]), float("inf"))
            running.extender.record.answered("filter", answer)
        yield running


@pytest.fixture(scope="session")
def still(server: PageServer) -> Iterator[Browser]:
    """The page for tests that only read it."""
    with Browser() as watching:
        opened(watching, server.url)
        yield watching


@pytest.fixture
def page(browser: Browser, server: PageServer) -> Iterator[Browser]:
    """The page, drawn; it must have complained of nothing in the end."""
    opened(browser, server.url)
    yield browser
    assert browser.console() == []
    assert browser.script("return document.title") == "GPU cluster"
