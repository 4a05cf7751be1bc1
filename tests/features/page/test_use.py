"""Actions of the page's reader, and updates from the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.features.page.browser import NEEDS_BROWSER, Browser
from tests.features.page.conditions import SICK, WHOLE
from tests.features.page.reading import names, opened
from tests.kube_objects import gpu, gpu_node, inventory, names_body, pod
from tests.server.process.product import Product, replaced

pytestmark = NEEDS_BROWSER

# As WebDriver names them.
TAB, ENTER, ESCAPE, END, HOME, RIGHT = "\ue004", "\ue007", "\ue00c", "\ue010", "\ue011", "\ue014"


@pytest.mark.parametrize(
    ("field", "value", "left"),
    [
        pytest.param("model", "T4", {"sick"}, id="by model, also one of several on a node"),
        pytest.param("namespace", "dev", {"sliced"}, id="by the namespace of those who hold MIG instances"),
    ],
)
def test_filters(page: Browser, field: str, value: str, left: set[str]) -> None:
    page.choose(f"[name={field}]", value)
    page.eventually(lambda: set(names(page)) == left, "the rest is gone")
    assert f"{field}={value}" in page.script("return location.search"), "a view can be passed on"
    page.eventually(lambda: page.text("#announce") == f"{len(left)} node shown", "the ear is told, too")
    opened(page, page.script("return location.href"))
    assert set(names(page)) == left
    page.click("#filters button")
    page.eventually(lambda: len(names(page)) == 9, "all are back")


def test_only_what_needs_a_look(page: Browser) -> None:
    page.click("[name=troubled]")
    page.eventually(lambda: set(names(page)) == {"lost", "sick", "old"}, "the well ones are gone")


def test_a_model_is_chosen_in_the_map(page: Browser) -> None:
    page.script(
        "[...document.querySelectorAll('#map button')].find((e) => e.innerText.includes('H100')).click()"
    )
    page.eventually(lambda: names(page) == ["labelled"], "that model is left")


def cells(page: Browser, name: str) -> list[str]:
    """The row of a node in the table."""
    found = page.script(
        "const line = [...document.querySelectorAll('.line')].find((e) => e.dataset.name === arguments[0]);"
        "return [...line.children].map((each) => each.innerText)",
        name,
    )
    return [str(text) for text in found]


def test_the_table_says_the_same(page: Browser) -> None:
    page.click("[name=table]")
    page.eventually(lambda: page.text("[role=table]") != "", "there is a table")
    assert page.script("return document.querySelector('[role=table]').getAttribute('aria-rowcount')") == "10"
    assert "train" in page.text("[role=table]")
    assert cells(page, "sliced")[6] == "unknown", "no agent told what no pod explains"
    assert cells(page, "busy")[6] == "≥ 1.0 GiB", "one of its two GPUs does not report it"
    assert "1 of 8 GPUs report it" in page.text("#totals")


def test_all_of_it_by_keyboard(page: Browser) -> None:
    focus = "return document.activeElement.closest('[data-name]')?.dataset.name ?? document.activeElement.id"
    page.press(TAB)
    assert page.script("return document.activeElement.className") == "skip"
    page.press(ENTER)
    assert page.script(focus) == "nodes-title"
    order = names(page)
    for _ in range(12):
        page.press(TAB)
        if page.script(focus) in order:
            break
    assert page.script(focus) == order[0], "one stop for all nodes"
    page.press(END)
    assert page.script(focus) == order[-1]
    page.press(HOME, RIGHT)
    assert page.script(focus) == order[1], "from the first one to the right"
    page.press(ENTER)
    page.eventually(lambda: page.script("return document.querySelector('dialog').open"), "its details open")
    page.press(ESCAPE)
    assert page.script(focus) == order[1], "and closed they leave the focus where it was"


def test_a_change_of_the_inventory_appears_by_itself(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory(gpu_node("first", [gpu(0)])))
    with Product(inventory=path) as product:
        product.ready()
        opened(browser, "http://{}:{}/".format(*product.inspect))
        browser.script("window.untouched = true")
        assert names(browser) == ["first"]
        assert "no node changed since" in browser.text("#foot"), "the time of loading is that of no change"
        second = gpu_node("second", [gpu(1, health=SICK)])
        waits = pod("hopeful", {WHOLE: "4"})
        replaced(path, inventory(gpu_node("first", [gpu(0)]), second, waits))
        browser.eventually(
            lambda: names(browser) == ["second", "first"], "the new node is there, the sick one first"
        )
        assert "a node changed" in browser.text("#foot")
        browser.eventually(lambda: "hopeful" in browser.text("#pending"), "and who waits")
        body = names_body(pod("asked", {WHOLE: "1"}), ["first", "second"])
        assert product.post("filter", body).status == 200
        browser.eventually(lambda: "asked" in browser.text("#decisions"), "and what was decided")
        replaced(path, inventory(second))
        browser.eventually(lambda: names(browser) == ["second"], "what went away is gone")
        assert browser.script("return window.untouched") is True, "without a reload"
    browser.eventually(lambda: "No answer" in browser.text("#connection"), "the end of the server is told")
    assert "The extender does not answer since" in browser.text("#banner")
    assert all("ERR_" in complaint for complaint in browser.console())
