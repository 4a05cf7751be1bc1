"""The text of the page."""

from __future__ import annotations

from tests.page.browser import Browser


def opened(browser: Browser, url: str) -> None:
    browser.open(url)
    browser.eventually(lambda: browser.text("#connection") == "Live", "the page is live")
    browser.eventually(lambda: bool(names(browser)), "nodes are drawn")


def names(browser: Browser) -> list[str]:
    """The nodes in the document, in reading order."""
    found = browser.script(
        "return [...document.querySelectorAll('#nodes [data-name]')].map((each) => each.dataset.name)"
    )
    return [str(name) for name in found]


def card(browser: Browser, name: str) -> str:
    """All that is to be read on a node's card, by eye or by ear."""
    found = browser.script(
        "const card = [...document.querySelectorAll('.card')].find((e) => e.dataset.name === arguments[0]);"
        "return card.innerText + [...card.querySelectorAll('[aria-label]')].map((e) => e.ariaLabel).join()",
        name,
    )
    return str(found)


def details(page: Browser, name: str) -> str:
    """The text of a node's dialog, which is opened from its card."""
    page.script(
        "[...document.querySelectorAll('.card button')].find((e) => e.innerText == arguments[0]).click()",
        name,
    )
    table = "return document.querySelector('#detail [aria-label=GPUs]')?.textContent ?? ''"
    page.eventually(lambda: "Held by" in page.script(table), "its details are shown")
    return page.text("#detail")
