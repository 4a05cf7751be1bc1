"""The text of the page."""

from __future__ import annotations

from tests.features.page.browser import Browser


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


def rows(page: Browser, view: str) -> list[list[str]]:
    """The cells of a view's table, row by row."""
    found = page.script(
        "return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)]"
        ".map((row) => [...row.children].map((each) => each.innerText.replace(/\\s+/g, ' ')))",
        view,
    )
    return [[str(text) for text in row] for row in found]


def named_roles(page: Browser, *more: str) -> set[str]:
    """The roles of what a reader can use, and `more`, each of which has a name."""
    roles = {"button", "combobox", "dialog", "heading", "link", "listbox", "region", "searchbox", *more}
    tree = page.devtools("Accessibility.getFullAXTree")["nodes"]
    found = [
        (entry["role"]["value"], entry.get("name", {}).get("value", ""))
        for entry in tree
        if not entry["ignored"] and entry.get("role", {}).get("value") in roles
    ]
    assert [role for role, name in found if not name] == []
    return {role for role, _ in found}
