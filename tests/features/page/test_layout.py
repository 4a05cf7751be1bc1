"""The visible part of the page in windows of several sizes, measured on the sample cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.objects import assemble, read_objects
from tests.features.page.browser import NEEDS_BROWSER, Browser
from tests.features.page.page_server import PageServer
from tests.features.page.reading import opened
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
_SIDEWAYS = "return document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def sample() -> Iterator[PageServer]:
    with PageServer(assemble(read_objects(SAMPLE.read_bytes()), ResourceNames()).values()) as running:
        yield running


@pytest.mark.parametrize(
    ("width", "height"),
    [
        pytest.param(1024, 700, id="a small laptop's browser"),
        pytest.param(1280, 600, id="a low window"),
        pytest.param(390, 844, id="a phone"),
    ],
)
def test_the_list_has_room_for_two_cards_and_nothing_covers_another(
    browser: Browser, sample: PageServer, width: int, height: int
) -> None:
    browser.resize(width, height)
    opened(browser, sample.url)
    assert browser.script(_LIST) >= 2
    assert browser.script(_OVERLAPS) <= 0
    assert browser.script(_SIDEWAYS) <= 0
