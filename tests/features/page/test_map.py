"""The map of large clusters: its groups, the order of their cells, and sick GPUs at any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.wire.objects import assemble, read_objects
from tests.core.reported import NAMES
from tests.features.page.browser import NEEDS_BROWSER, Browser
from tests.features.page.conditions import SICK, WHOLE
from tests.features.page.page_server import PageServer
from tests.features.page.reading import names, opened
from tests.kube_objects import gpu, gpu_node, holder, inventory, node

pytestmark = NEEDS_BROWSER

POOL = "karpenter.sh/nodepool"
MANY = 2000


def nodes(many: int) -> list[NodeInfo]:
    """Nodes of one GPU in three pools; the last one but three of each pool is sick, stale or missing."""
    objects = []
    for number in range(many):
        name = f"n{number:04}"
        held = [holder("p")] if number % 2 else []
        second = gpu(1, f"GPU-{name}-1")
        if number == many - 4:
            second |= {"health": SICK}
        devices = [gpu(0, f"GPU-{name}-0", holders=held), second]
        pool = ("blue", "green", "red")[number % 3]
        objects += [gpu_node(name, devices), node(name, {WHOLE: "2"}, labels={POOL: pool})]
    found = assemble(read_objects(inventory(*objects)), NAMES)
    for at, freshness in ((5, "Stale"), (6, "Missing")):
        name = f"n{many - at:04}"
        found[name] = replace(found[name], freshness=freshness)
    return list(found.values())


@pytest.fixture(scope="module")
def large() -> Iterator[PageServer]:
    with PageServer(nodes(MANY)) as running:
        yield running


def heads(page: Browser) -> list[str]:
    found = page.script("return [...document.querySelectorAll('.group-head strong')].map((e) => e.innerText)")
    return [str(text) for text in found]


def cells(page: Browser, group: str) -> list[str]:
    """The nodes of a group, in the order of their cells."""
    found = page.script(
        "const groups = [...document.querySelectorAll('.group')];"
        "const group = groups.find((e) => e.innerText.startsWith(arguments[0]));"
        "return group.querySelector('canvas').group.nodes.map((each) => each.name)",
        group,
    )
    return [str(name) for name in found]


def troubles(page: Browser) -> dict[str, str]:
    found = page.script(
        "return [...document.querySelectorAll('.group')].map((e) =>"
        " [e.querySelector('strong').innerText, e.querySelector('.trouble')?.innerText ?? ''])"
    )
    return dict(found)


def test_a_small_cluster_is_grouped_by_model_and_a_large_one_by_pool(
    browser: Browser, large: PageServer
) -> None:
    with PageServer(nodes(12)) as small:
        opened(browser, small.url)
        assert heads(browser) == ["A100-80GB"]
    opened(browser, large.url)
    assert heads(browser) == ["blue", "green", "red"]
    lines = browser.script(
        "return [...document.querySelectorAll('.group-head span')].map((e) => e.innerText)"
    )
    assert lines[0] == "25 % · 1,334 × A100-80GB"
    assert browser.script("return location.search") == ""


def test_trouble_comes_first_unless_names_do_and_the_choice_is_in_the_address(
    browser: Browser, large: PageServer
) -> None:
    opened(browser, large.url)
    browser.choose("#map-view [name=group]", "model")
    browser.eventually(lambda: heads(browser) == ["A100-80GB"], "grouped by model")
    assert cells(browser, "A100-80GB")[:4] == ["n1994", "n1996", "n1995", "n0000"], "missing, sick, stale"
    browser.choose("#map-view [name=order]", "name")
    browser.eventually(lambda: cells(browser, "A100-80GB")[:2] == ["n0000", "n0001"], "by name")
    browser.choose("#map-view [name=order]", "load")
    browser.eventually(lambda: cells(browser, "A100-80GB")[:2] == ["n0001", "n0003"], "the fullest first")
    assert browser.script("return location.search") == "?group=model&order=load"
    opened(browser, browser.script("return location.href"))
    assert heads(browser) == ["A100-80GB"]
    assert cells(browser, "A100-80GB")[MANY // 2] == "n0000"


def test_the_trouble_of_a_group_leads_to_its_nodes(browser: Browser, large: PageServer) -> None:
    opened(browser, large.url)
    assert troubles(browser) == {"blue": "◷ 1 stale", "green": "✕ 1 sick", "red": "⊠ 1 missing"}
    browser.script(
        "[...document.querySelectorAll('.trouble')].find((e) => e.innerText.includes('sick')).click()"
    )
    browser.eventually(lambda: names(browser) == ["n1996"], "the sick node of this pool is left")
    assert browser.script("return location.search") == "?pool=green&troubled="
    lines = "return [...document.querySelectorAll('.group-head span')].map((e) => e.innerText)"
    blue, green, _ = browser.script(lines)
    assert blue == "none shown", "a pool of which the filters leave no node"
    assert green == "0 % · 2 × A100-80GB"
