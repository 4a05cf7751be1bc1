"""The page as its reader meets it: in a real browser, on nodes of every condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler_ext.core.node import NodeInfo
from scheduler_ext.wire.objects import assemble, read_objects
from tests.core.reported import NAMES
from tests.kube_objects import GFD_H100, Json, gpu, gpu_node, holder, inventory, names_body, node, pod
from tests.page.browser import Browser, missing_programs
from tests.page.page_server import PageServer
from tests.server.product import Product
from tests.server.test_serve_page import replaced

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        bool(missing_programs()),
        reason=f"no {' and no '.join(missing_programs())}: apt install chromium chromium-driver",
    ),
]

WHOLE = "nvidia.com/gpu"
DOWN, END, ENTER, ESCAPE, TAB = "\ue015", "\ue010", "\ue007", "\ue00c", "\ue004"
SICK = {"state": "Unhealthy", "reason": "XID 79"}
MIG = {
    "enabled": True,
    "instances": [
        {"uuid": "MIG-0", "profile": "1g.10gb", "start": 0, "size": 1},
        {"uuid": "MIG-4", "profile": "3g.40gb", "start": 4, "size": 4, "holder": holder("m", "dev")},
    ],
}
SCRIPT = "<script>document.title='harm'</script><img src=x onerror=document.title='harm'>"
RIGHT_TO_LEFT = "a\u202egpj.exe\u2066\u200b"
LONG = "n" * 253
MEMORY = {"totalMiB": 81920, "reservedMiB": 620, "usedMiB": 40960, "unaccountedMiB": 1024}


def infos() -> list[NodeInfo]:
    objects: list[Json] = [
        gpu_node("busy", [gpu(0, memory=MEMORY, holders=[holder("train", "research")]), gpu(1)]),
        node("busy", {WHOLE: "2"}, labels={"karpenter.sh/nodepool": "train"}),
        gpu_node("sick", [gpu(0, "GPU-s0", health=SICK), gpu(1, "GPU-s1", model="T4", total=15360)]),
        gpu_node("sliced", [gpu(0, "GPU-m0", mig=MIG)]),
        gpu_node("old", [gpu(0, "GPU-o0")]),
        gpu_node("lost", [gpu(0, "GPU-l0")]),
        node("labelled", {WHOLE: "8"}, labels=GFD_H100),
        *(gpu_node(name, [gpu(0, f"GPU-{i}")]) for i, name in enumerate((SCRIPT, RIGHT_TO_LEFT, LONG), 10)),
    ]
    found = assemble(read_objects(inventory(*objects)), NAMES)
    found["old"] = replace(found["old"], freshness="Stale")
    found["lost"] = replace(found["lost"], freshness="Missing")
    return list(found.values())


def line(**fields: Any) -> dict[str, Any]:
    plain = {
        "namespace": "research",
        "name": "waits",
        "uid": "w",
        "priority": 0,
        "asks": "8 × nvidia.com/gpu",
    }
    rest = {"reason": "not looked at yet", "nearest": None, "filters": 0, "since": None, "nominated": None}
    return plain | rest | fields


WAITING = [
    line(nearest="busy lacks 6 GPUs", reason="node(s) had GPUs too small"),
    line(namespace=SCRIPT, name=RIGHT_TO_LEFT, asks=SCRIPT, reason=SCRIPT),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with PageServer(infos(), WAITING) as running:
        for asking in (pod("fits", {WHOLE: "1"}), pod(SCRIPT, {WHOLE: "9"})):
            answer = running.extender.filter(names_body(asking, ["busy", "sick"]), float("inf"))
            running.extender.record.answered("filter", answer)
        yield running


@pytest.fixture(scope="module")
def still(server: PageServer) -> Iterator[Browser]:
    """The page for those who only look."""
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


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("busy", ["2 × A100-80GB", "train", "79.4 GiB of 80 GiB requested"], id="a busy one"),
        pytest.param("busy", ["40 GiB in use", "1 GiB unaccounted for"], id="with what is observed"),
        pytest.param("sick", ["✕ 1 sick", "✕ sick", "Unhealthy: XID 79"], id="a sick GPU, and why"),
        pytest.param(
            "sliced", ["1g", "3g", "MIG: 1g.10gb at 0 free, 3g.40gb at 4 held"], id="MIG with its slots"
        ),
        pytest.param("old", ["Stale", "the last report is old"], id="a stale one"),
        pytest.param("lost", ["Missing", "nothing is placed here"], id="a missing one"),
        pytest.param(
            "labelled", ["labels only", "8 × H100-80GB", "its use is not known"], id="one by labels"
        ),
    ],
)
def test_what_a_card_says(still: Browser, name: str, says: list[str]) -> None:
    assert [text for text in says if text not in card(still, name)] == []


def test_what_needs_a_look_comes_first(still: Browser) -> None:
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
    assert "nearest: busy lacks 6 GPUs" in waiting
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


@pytest.mark.parametrize(
    ("field", "value", "left"),
    [
        pytest.param("model", "T4", {"sick"}, id="by model, also one of several on a node"),
        pytest.param("pool", "train", {"busy"}, id="by pool"),
        pytest.param("namespace", "research", {"busy"}, id="by the namespace of those who hold GPUs"),
        pytest.param("namespace", "dev", {"sliced"}, id="MIG instances too"),
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


def test_the_table_says_the_same(page: Browser) -> None:
    page.click("[name=table]")
    page.eventually(lambda: page.text("[role=table]") != "", "there is a table")
    assert page.script("return document.querySelector('[role=table]').getAttribute('aria-rowcount')") == "10"
    assert "train" in page.text("[role=table]")


def test_all_of_it_by_keyboard(page: Browser) -> None:
    focus = "return document.activeElement.closest('[data-name]')?.dataset.name ?? document.activeElement.id"
    page.press(TAB)
    assert page.script("return document.activeElement.className") == "skip"
    page.press(ENTER)
    assert page.script(focus) == "nodes-title"
    order = names(page)
    for _ in range(4):
        page.press(TAB)
        if page.script(focus) in order:
            break
    assert page.script(focus) == order[0], "one stop for all nodes"
    page.press(END)
    assert page.script(focus) == order[-1]
    page.press("\ue011", "\ue014")
    assert page.script(focus) == order[1], "from the first one to the right"
    page.press(ENTER)
    page.eventually(lambda: page.script("return document.querySelector('dialog').open"), "its details open")
    page.press(ESCAPE)
    assert page.script(focus) == order[1], "and closed they leave the focus where it was"


def test_nothing_on_the_page_is_without_a_name(still: Browser) -> None:
    tree = still.devtools("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "combobox", "searchbox", "checkbox", "image", "table", "dialog", "region"}
    found = [
        (entry["role"]["value"], entry.get("name", {}).get("value", ""))
        for entry in tree
        if not entry["ignored"] and entry.get("role", {}).get("value") in roles
    ]
    assert {role for role, _ in found} >= {"button", "combobox", "searchbox", "checkbox", "image"}
    assert [role for role, name in found if not name] == []


def test_a_change_of_the_inventory_appears_by_itself(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory(gpu_node("first", [gpu(0)])))
    with Product(inventory=path) as product:
        product.ready()
        opened(browser, "http://{}:{}/".format(*product.inspect))
        browser.script("window.untouched = true")
        assert names(browser) == ["first"]
        second = gpu_node("second", [gpu(1, health=SICK)])
        waits = pod("hopeful", {WHOLE: "4"})
        replaced(path, inventory(gpu_node("first", [gpu(0)]), second, waits))
        browser.eventually(
            lambda: names(browser) == ["second", "first"], "the new node is there, the sick one first"
        )
        browser.eventually(lambda: "hopeful" in browser.text("#pending"), "and who waits")
        body = names_body(pod("asked", {WHOLE: "1"}), ["first", "second"])
        assert product.post("filter", body).status == 200
        browser.eventually(lambda: "asked" in browser.text("#decisions"), "and what was decided")
        replaced(path, inventory(second))
        browser.eventually(lambda: names(browser) == ["second"], "what went away is gone")
        assert browser.script("return window.untouched") is True, "without being loaded anew"
    browser.eventually(lambda: "No answer" in browser.text("#connection"), "the end of the server is told")
    assert all("ERR_" in complaint for complaint in browser.console())


def test_no_asset_comes_from_elsewhere(still: Browser, server: PageServer) -> None:
    origin = server.url.removesuffix("/page/")
    loaded = still.script("return performance.getEntriesByType('resource').map((each) => each.name)")
    assert loaded
    assert [name for name in loaded if not name.startswith(origin)] == []


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
