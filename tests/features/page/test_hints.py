"""Explanations of words and bars, by mouse, keyboard and finger."""

from __future__ import annotations

import pytest

from tests.features.page.browser import NEEDS_BROWSER, Browser

pytestmark = NEEDS_BROWSER

ESCAPE, RIGHT = "\ue00c", "\ue014"
UNACCOUNTED = "Memory in use that belongs to no known pod"


def explanation(page: Browser) -> str:
    """The visible explanation."""
    found = page.script(
        "return [...document.querySelectorAll('.tip')].filter((e) => !e.hidden && e.textContent)"
        ".map((e) => e.innerText).join()"
    )
    return str(found)


def marked(page: Browser, container: str, word: str) -> str:
    """The selector of a word with an explanation."""
    page.script(
        "document.getElementById('tried')?.removeAttribute('id');"
        "[...document.querySelectorAll(arguments[0] + ' .hint')].find((e) => e.innerText === arguments[1])"
        ".id = 'tried'",
        container,
        word,
    )
    return "#tried"


@pytest.mark.parametrize(
    ("container", "word", "says", "pointer"),
    [
        pytest.param("#totals", "Unaccounted", UNACCOUNTED, "mouse", id="a total"),
        pytest.param("#nodes-legend", "kept back", "the headroom of shares", "touch", id="a part"),
    ],
)
def test_a_word_is_explained(page: Browser, container: str, word: str, says: str, pointer: str) -> None:
    page.point(marked(page, container, word), pointer)
    page.eventually(lambda: says in explanation(page), "it is explained")
    page.point("h1", pointer)
    page.eventually(lambda: explanation(page) == "", "and no longer")


def test_arrows_lead_through_the_words_of_a_legend(page: Browser) -> None:
    page.script("document.querySelector('#nodes-legend .hint').focus()")
    page.press(RIGHT, RIGHT)
    assert page.script("return document.activeElement.innerText") == "unaccounted"
    assert UNACCOUNTED in explanation(page)
    assert UNACCOUNTED in page.script("return document.activeElement.ariaDescription"), "for the ear"
    stops = (
        "return [...document.querySelectorAll('#nodes-legend .hint')].filter((e) => e.tabIndex === 0).length"
    )
    assert page.script(stops) == 1
    page.press(ESCAPE)
    assert explanation(page) == ""


def test_a_tapped_bar_says_its_numbers(page: Browser) -> None:
    page.point(".card .gpu", "touch")
    page.eventually(lambda: "kept back." in explanation(page), "the numbers of the bar")


def test_the_first_escape_in_a_dialog_ends_the_explanation_only(page: Browser) -> None:
    page.script("[...document.querySelectorAll('.card button')].find((e) => e.innerText == 'sick').click()")
    page.eventually(lambda: "kept back" in page.text("#detail"), "its details are shown")
    page.script("document.querySelector('#detail td .hint').focus()")
    assert "headroom" in explanation(page)
    page.press(ESCAPE)
    assert (explanation(page), page.script("return document.querySelector('dialog').open")) == ("", True)
    page.press(ESCAPE)
    page.eventually(lambda: not page.script("return document.querySelector('dialog').open"), "closed")
