"""The search for pods and nodes, the running pods, and the namespaces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.features.page.browser import NEEDS_BROWSER, Browser
from tests.features.page.conditions import LONG, WHOLE
from tests.features.page.page_server import PageServer
from tests.features.page.pods_cluster import (
    IMAGE,
    MANY,
    WANTS,
    follow,
    follows,
    goes_to,
    of,
    pods_server,
    shows,
)
from tests.features.page.reading import named_roles, rows
from tests.kube_objects import gpu, gpu_node, pod

pytestmark = NEEDS_BROWSER

# As WebDriver names them.
BACKSPACE, ENTER, ESCAPE, DOWN, UP = "\ue003", "\ue007", "\ue00c", "\ue015", "\ue013"
SIDEWAYS = "return document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with pods_server() as running:
        yield running


def hits(page: Browser) -> list[str]:
    found = page.script(
        "return [...document.querySelectorAll('#hits [role=option]')].map((e) => e.innerText)"
    )
    return [str(text) for text in found]


def test_the_search_finds_nodes_and_pods(page: Browser) -> None:
    page.press("/")
    assert page.script("return document.activeElement.name") == "lookup"
    page.type("[name=lookup]", "research/")
    page.eventually(lambda: len(hits(page)) == 2, "a waiting pod and a running one")
    assert hits(page) == ["research/wants", "research/train busy"]
    page.press(DOWN)
    active = "return document.querySelector('[name=lookup]').getAttribute('aria-activedescendant')"
    assert page.script(active) == page.script("return document.querySelector('[aria-selected=true]').id")
    page.press(ENTER)
    shows(page, "Pod research/train", "on its node")
    page.press(ESCAPE)
    page.eventually(lambda: page.text("dialog[open]") == "", "the dialog is closed")
    assert page.script("return document.activeElement.name") == "lookup"


def test_hundreds_of_hits_are_counted_and_the_list_has_them(page: Browser) -> None:
    page.choose("[name=namespace]", "research")
    page.type("[name=lookup]", "job")
    page.eventually(lambda: f"(15 of {MANY})" in page.text("#hits"), "they are counted")
    assert len(hits(page)) == 16
    page.press(UP)
    page.press(ENTER)
    page.eventually(lambda: f"{MANY} pods, the first 200 here" in page.text("#running"), "they are listed")
    assert page.script("return location.search") == "?view=pods&pods=job"
    assert page.script("return document.querySelectorAll('#running tbody tr').length") == 200


def test_nodes_hide_no_pods_and_the_nearest_kind_comes_first(page: Browser, server: PageServer) -> None:
    nodes = [gpu_node(f"wants-{number:02}", [gpu(0, f"GPU-{number}")]) for number in range(40)]
    follow(server, WANTS, *nodes, of("research", pod("also-wants", {WHOLE: "1"}, on="wants-00")))
    try:
        page.eventually(lambda: "44" in page.text("#totals"), "the nodes are there")
        page.type("[name=lookup]", "wants")
        page.eventually(lambda: len(hits(page)) == 8, "some of each kind")
        assert [text for text in page.text("#hits").split("\n") if text] == [
            "Waiting pods (1)",
            "research/wants",
            "Nodes (5 of 40)",
            *(f"wants-{number:02}" for number in range(5)),
            "Show all 40 nodes",
            "Running pods (1)",
            "research/also-wants wants-00",
        ]
        page.press(UP, UP)
        page.press(ENTER)
        page.eventually(lambda: "40 of 44 shown" in page.text("#nodes-view"), "they are listed")
        # Faster than the answer.
        page.type("[name=lookup]", f"-07{ENTER}")
        shows(page, "Node wants-07", "GPU-7")
    finally:
        follow(server, WANTS)


def test_running_pods_are_filtered_and_sorted(page: Browser) -> None:
    page.click("[name=view-pods]")
    page.eventually(lambda: len(rows(page, "running")) == 200, "the first are listed")
    assert page.text("#nodes-title") == "Running pods"
    page.choose("[name=namespace]", "research")
    page.eventually(lambda: len(rows(page, "running")) == 1, "one is of this namespace")
    (train,) = rows(page, "running")
    assert train[:5] == ["research/train 1 × nvidia.com/gpu", "busy", "1 GPU 1", "80.0 GiB", "30.0 GiB"]
    page.click("#filters button")
    page.type("[name=pods]", "h/job-00")
    page.eventually(lambda: len(rows(page, "running")) == 10, "ten have this in their name")
    page.script("document.querySelector('[name=pods]').select()")
    page.type("[name=pods]", BACKSPACE)
    page.click("[name=order-used]")
    page.eventually(
        lambda: rows(page, "running")[0][0].startswith("research/train"), "the one that uses most is first"
    )
    assert page.script("return document.querySelector('[aria-sort=descending]').innerText") == "In use ▼"
    page.click("#running .pod")
    shows(page, "Pod research/train", "on its node")


def test_namespaces_have_sums_and_filter(page: Browser) -> None:
    page.click("[name=view-namespaces]")
    page.eventually(lambda: len(rows(page, "namespaces")) == 3, "all are listed")
    sums = {row[0]: row[1:] for row in rows(page, "namespaces")}
    assert sums["research"][:5] == ["1", "80.0 GiB", "30.0 GiB", "1", "1"]
    assert sums["research"][5].endswith(" d"), "the longest wait"
    assert sums["batch"][2:] == ["unknown", str(MANY), "0", "–"]
    choose = (
        "[...document.querySelectorAll('#namespaces tbody button')].find((e) => e.innerText === 'research')"
    )
    page.script(f"{choose}.click()")
    page.eventually(lambda: page.text("#pending-count") == "(1 of 1)", "the page is filtered")
    assert page.script(f"return {choose}.getAttribute('aria-pressed')") == "true"
    assert page.script("return location.search") == "?namespace=research&view=namespaces"
    page.script(f"{choose}.closest('tr').querySelector('td button').click()")
    page.eventually(lambda: len(rows(page, "running")) == 1, "its running pods are listed")


def test_hostile_names_of_pods_are_text(page: Browser, server: PageServer) -> None:
    spelled = "a\\u{202e}gpj.exe\\u{2066}\\u{200b}/" + IMAGE
    page.type("[name=lookup]", "onerror")
    page.eventually(lambda: spelled in page.text("#hits"), "found")
    page.press(ENTER)
    shows(page, f"Pod {spelled}", "on its node")
    follows(page, LONG)
    shows(page, f"Node {LONG}", spelled)
    page.press(ESCAPE)
    page.click("[name=view-pods]")
    page.type("[name=pods]", "onerror")
    page.eventually(lambda: spelled in page.text("#running"), "listed")
    page.click("[name=view-namespaces]")
    page.eventually(lambda: "a\\u{202e}gpj" in page.text("#namespaces"), "summed")
    assert page.script("return document.querySelectorAll('img').length") == 0
    assert not set("\u202e\u2066\u200b") & set(page.script("return document.body.innerText"))
    assert page.script(SIDEWAYS) <= 0


DRAWN = "dialog[open] tbody, .subject:not([hidden]) tbody"


@pytest.mark.parametrize("where", ["?view=pods", "#pod=research/wants"])
def test_all_controls_have_names(page: Browser, server: PageServer, where: str) -> None:
    goes_to(page, server, where)
    page.eventually(lambda: bool(page.text(DRAWN)), "it is drawn")
    if "#" not in where:
        page.type("[name=lookup]", "job")
        page.eventually(lambda: bool(hits(page)), "there are hits")
    assert {"button", "link" if "#" in where else "listbox"} <= named_roles(page)
