"""The page's content, visible and for screen readers, and its resistance to hostile texts."""

from __future__ import annotations

import re

from hypothesis import given, settings

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.state import resolve
from scheduler_ext.features.page.overview import node_row
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects
from tests.core.reported import NAMES
from tests.features.page.browser import NEEDS_BROWSER, Browser
from tests.features.page.conditions import SCRIPT, WHOLE
from tests.features.page.page_server import PageServer
from tests.features.page.reading import card, named_roles, names, opened
from tests.free_memory import clusters_with_closed_parts
from tests.kube_objects import gpu, gpu_node, inventory, pod

pytestmark = NEEDS_BROWSER


CARDS = {
    "busy": [
        "2 × A100-80GB",
        "train",
        "79.4 GiB of 80.0 GiB requested",
        "40.0 GiB in use",
        "1.0 GiB unaccounted",
    ],
    "sick": ["✕ 1 sick", "✕ sick", "Unhealthy: XID 79"],
    "sliced": ["1g", "3g", "MIG: 1g.10gb at 0 free, 3g.40gb at 4 held"],
    "old": ["Stale", "the last report is old"],
    "lost": ["Missing", "nothing is placed here"],
    "labelled": ["labels only", "8 × H100-80GB", "its use is not known"],
}


def test_the_texts_of_cards_of_which_those_with_problems_come_first(still: Browser) -> None:
    for name, says in CARDS.items():
        assert [text for text in says if text not in card(still, name)] == [], name
    assert re.findall(r"[\d.]+ GiB free", card(still, "lost")) == ["0 GiB free"], "where nothing is placed"
    assert names(still)[:3] == ["lost", "sick", "old"]


def test_totals_map_waiting_pods_decisions_and_history(still: Browser) -> None:
    totals = still.text("#totals")
    assert "1 stale, 1 missing" in totals
    assert still.script(
        "return [...document.querySelectorAll('#map canvas')].every((each) => each.width && each.ariaLabel)"
    )
    assert "A100-80GB" in still.text("#map")
    waiting = still.text("#pending")
    assert "research/waits" in waiting.replace("\n", "")
    told = (
        "Insufficient nvidia.com/gpu per device",
        "nearest: busy lacks 6 GPUs",
        "commonest, on 7 of 9 nodes: node(s) had GPUs too small",
    )
    at = [waiting.index(each) for each in told]
    assert at == sorted(at), "the cause comes first"
    still.eventually(lambda: "default/fits" in still.text("#decisions"), "the decision is told")
    assert "none of 2 nodes fits" in still.text("#decisions")
    assert "allocated" in still.text("#history")


def test_hostile_names_are_text_and_nothing_else(page: Browser) -> None:
    page.eventually(lambda: SCRIPT in page.text("#decisions"), "the decision about the hostile pod is told")
    assert page.script("return document.querySelectorAll('script').length") == 1
    assert page.script("return document.querySelectorAll('main img, aside img').length") == 0
    shown = page.text("#nodes") + page.text("#pending")
    assert SCRIPT in shown
    assert "a\\u{202e}gpj.exe\\u{2066}\\u{200b}" in shown
    assert not set("\u202e\u2066\u200b") & set(page.script("return document.body.innerText"))
    width = "return [document.documentElement.scrollWidth, innerWidth]"
    assert page.script(width)[0] <= page.script(width)[1], "253 characters push nothing out of the window"
    page.type("[name=find]", "<script")
    page.eventually(lambda: names(page) == [SCRIPT], "found by its name")
    page.click("#nodes button")
    page.eventually(lambda: "A100-80GB" in page.text("#detail"), "its details are shown")
    assert SCRIPT in page.text("#detail")


def test_all_controls_have_names(still: Browser) -> None:
    found = named_roles(still, "checkbox", "image", "table")
    assert {"button", "combobox", "searchbox", "checkbox", "image"} <= found


def test_the_policy_stops_what_does_get_in(browser: Browser, server: PageServer) -> None:
    opened(browser, server.url)
    for harm in (
        "const s = document.createElement('script'); s.text = 'window.harmed = 1'; document.body.append(s)",
        "document.body.innerHTML += '<img src=x onerror=\"window.harmed = 1\">'",
        "setTimeout('window.harmed = 1')",
    ):
        browser.script(f"try {{ {harm} }} catch {{}}")
    assert browser.script("return window.harmed ?? 0") == 0
    refused = browser.console()
    assert len(refused) == 3
    assert all("Trusted" in complaint for complaint in refused)


SUMS = """
const [{decodeNode, totals}, rows] = [await import(new URL('js/cluster.js', location)), arguments[0]];
return totals(rows.map(decodeNode)).free;
"""


@settings(max_examples=20, deadline=None)
@given(clusters_with_closed_parts())
def test_the_total_that_is_free_is_that_of_the_inventory(still: Browser, infos: tuple[NodeInfo, ...]) -> None:
    config = Configuration()
    items = inventory_list(infos, config)["items"]
    headroom = config.memory.headroom_percent
    rows = [node_row(resolve(info, NAMES, 10), NAMES, headroom) for info in infos]
    assert still.script(SUMS, [[*row, []] for row in rows if row is not None]) == sum(
        device["memory"]["freeMiB"] or 0 for item in items for device in item["devices"]
    )


WHOLLY_FREE = """
const [{decodeNode}, [row]] = [await import(new URL('js/cluster.js', location)), arguments];
return decodeNode(row).sum.idle;
"""


def test_more_gpus_held_than_there_are_leave_none_wholly_free(still: Browser) -> None:
    read = read_objects(inventory(gpu_node("n", [gpu(0)]), pod("p", {WHOLE: "9"}, on="n")))
    (info,) = assemble(read, NAMES).values()
    row = [*(node_row(resolve(info, NAMES, 10), NAMES, 10) or ()), []]
    assert still.script(WHOLLY_FREE, row) == 0


def test_an_unreadable_pod_shows_its_fault_and_names_no_node(still: Browser) -> None:
    found = still.script(
        "return [...document.querySelectorAll('#pending li')].find((e) => e.innerText.includes('garbled'))"
        ".innerText"
    )
    assert re.search(r"garbled\s+\d+ d\s+something that cannot be read\s", found), "with its age"
    assert "container 'main': quantity '8Gi' is absurd" in found
    assert "nearest" not in found
