"""The visible part of the page in windows of several sizes, measured on the sample cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.objects import assemble, read_objects
from tests.page.browser import NEEDS_BROWSER, Browser
from tests.page.page_server import PageServer
from tests.page.reading import opened
from tests.pages import SAMPLE

pytestmark = NEEDS_BROWSER

# The cards that are wholly in the list's window without a turn of the wheel.
_LIST = """
const port = document.querySelector('.port').getBoundingClientRect();
const cards = [...document.querySelectorAll('.card')].map((each) => each.getBoundingClientRect());
return cards.filter((each) => each.bottom <= port.bottom && each.right <= port.right).length;
"""
_OVERLAPS = """
const bottoms = [...document.querySelectorAll('main, aside, .panel, .port')]
  .map((each) => each.getBoundingClientRect().bottom);
return Math.max(...bottoms) - document.querySelector('footer').getBoundingClientRect().top;
"""
_HEIGHTS = """
return [document.documentElement.scrollHeight, innerHeight, document.querySelector('.port').clientHeight];
"""
_HIDDEN_MAP = "const map = document.getElementById('map'); return map.scrollHeight - map.clientHeight"
_SIDEWAYS = "return document.documentElement.scrollWidth - innerWidth"
_CELLS = """
return [...document.querySelectorAll('#map canvas')].map((each) => each.clientHeight / each.group.down);
"""


@pytest.fixture(scope="module")
def sample() -> Iterator[PageServer]:
    with PageServer(assemble(read_objects(SAMPLE.read_bytes()), ResourceNames()).values()) as running:
        yield running


def resized(browser: Browser, width: int, height: int, url: str) -> None:
    browser.devtools(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
    )
    opened(browser, url)


@pytest.mark.parametrize(
    ("width", "height"),
    [
        pytest.param(1024, 700, id="a small laptop's browser"),
        pytest.param(1100, 800, id="between two layouts"),
        pytest.param(1280, 720, id="a laptop"),
        pytest.param(1280, 600, id="a low window"),
        pytest.param(1440, 900, id="a usual screen"),
        pytest.param(390, 844, id="a phone"),
    ],
)
def test_the_list_has_room_for_two_cards_and_nothing_covers_another(
    browser: Browser, sample: PageServer, width: int, height: int
) -> None:
    resized(browser, width, height, sample.url)
    assert browser.script(_LIST) >= 2
    assert browser.script(_OVERLAPS) <= 0
    assert browser.script(_SIDEWAYS) <= 0


def test_a_large_window_is_filled_and_does_not_scroll(browser: Browser, sample: PageServer) -> None:
    resized(browser, 1440, 1200, sample.url)
    heights: list[Any] = browser.script(_HEIGHTS)
    assert heights[0] == heights[1]
    assert heights[2] > 600


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_the_cells_of_a_small_cluster_can_be_distinguished(
    browser: Browser, sample: PageServer, width: int
) -> None:
    resized(browser, width, 844, sample.url)
    cells = browser.script(_CELLS)
    assert len(cells) == 9
    assert min(cells) >= 12


def test_on_a_phone_all_models_are_there_without_a_second_scroll(
    browser: Browser, sample: PageServer
) -> None:
    resized(browser, 390, 844, sample.url)
    assert browser.script(_HIDDEN_MAP) <= 0
