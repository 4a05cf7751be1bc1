"""One number for each fact, and a page that says when its numbers may be old."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler_ext.sources.source_status import Problem
from scheduler_ext.wire.objects import assemble, read_objects
from tests.core.reported import NAMES
from tests.kube_objects import GFD_H100, Json, gpu, gpu_node, inventory, node, pod
from tests.page.browser import NEEDS_BROWSER, Browser
from tests.page.conditions import SICK, WHOLE, line
from tests.page.page_server import PageServer
from tests.page.reading import card, names, opened
from tests.server.process.product import Product
from tests.server.process.test_serve_page import replaced

pytestmark = NEEDS_BROWSER

MEMORY = {"totalMiB": 81920, "reservedMiB": 620, "usedMiB": 3}


def alike(name: str, count: int) -> Json:
    return gpu_node(name, [gpu(index, f"GPU-{name}-{index}", memory=MEMORY) for index in range(count)])


def instances(prefix: str) -> Json:
    alike = [{"uuid": f"{prefix}-{at}", "profile": "1g.10gb", "start": at, "size": 1} for at in range(2)]
    return {"enabled": True, "instances": alike}


HELD = [
    alike("eight", 8),
    node("eight", {WHOLE: "8"}),
    pod("train", {WHOLE: "4"}, on="eight"),
    gpu_node("sliced", [gpu(0, "GPU-m", mig=instances("MIG"))], migStrategy="mixed"),
    node("sliced", {"nvidia.com/mig-1g.10gb": "2"}),
    pod("notebook", {"nvidia.com/mig-1g.10gb": "1"}, on="sliced"),
    alike("slices", 2)
    | {"status": alike("slices", 2)["status"] | {"sharing": {"strategy": "mps", "replicas": 4}}},
    node("slices", {WHOLE: "8"}),
    pod("part", {WHOLE: "3"}, on="slices"),
]


def served(*objects: Json, pending_lines: list[dict[str, Any]] | None = None) -> PageServer:
    return PageServer(assemble(read_objects(inventory(*objects)), NAMES).values(), pending_lines or [])


def tile(page: Browser, name: str) -> list[str]:
    """A total by the beginning of its name: its value, and the text below it."""
    found = page.script(
        "const all = [...document.querySelectorAll('.tile')];"
        "const tile = all.find((each) => each.innerText.startsWith(arguments[0]));"
        "return tile.innerText.split('\\n').slice(1)",
        name,
    )
    return [str(text) for text in found]


def figure(page: Browser, selector: str, pattern: str) -> str:
    found = re.search(pattern, page.text(selector), re.DOTALL)
    assert found, page.text(selector)
    return found[1]


@pytest.fixture(scope="module")
def shown() -> Iterator[Browser]:
    with served(*HELD) as server, Browser() as browser:
        opened(browser, server.url)
        yield browser


class TestHeldWhichIsNotKnown:
    def test_a_card_says_how_many_and_no_gpu_is_free_for_sure(self, shown: Browser) -> None:
        text = card(shown, "eight")
        assert "at least 4 GPUs held, devices unknown" in text
        assert text.count("at most 79.4 GiB free: a pod may hold it") == 8
        assert text.count("≤ 79.4 GiB") == 8

    def test_an_instance_may_be_held(self, shown: Browser) -> None:
        text = card(shown, "sliced")
        assert "at least 1 × 1g.10gb held, devices unknown" in text
        assert text.count("may be held") == 2

    def test_replicas_are_held_at_least(self, shown: Browser) -> None:
        text = card(shown, "slices")
        assert "at least 3 replicas held, devices unknown" in text
        assert text.count("≥ 0 of 4 replicas held") == 2

    def test_sums_exclude_holdings(self, shown: Browser) -> None:
        # Of the eight four, of the two instances one; replicas take no memory for themselves.
        free = 4 * 81297 + 2 * 81297 + 81920 - 9728
        assert tile(shown, "Free")[0] == f"≤ {free / 1024:.0f} GiB"
        # Four of eight are left, and of the two that are shared the one that no replica has to be on.
        assert tile(shown, "GPUs") == ["11", "5 wholly free"]
        assert tile(shown, "Allocated") == ["48 %", "5.3 of 11 in service"]

    def test_the_details_name_the_pod_and_show_free_gpus_as_free(self, shown: Browser) -> None:
        shown.script(
            "[...document.querySelectorAll('.card button')].find((e) => e.innerText == 'eight').click()"
        )
        shown.eventually(lambda: "default/train" in shown.text("#detail"), "the details are shown")
        text = shown.text("#detail")
        assert "at least 4 GPUs held, devices unknown" in text
        assert (text.count("≤ 79.4 GiB"), text.count("may be held")) == (8, 8)
        assert "nobody" not in text
        shown.script("document.querySelector('dialog').close()")


@pytest.mark.parametrize(
    ("allowed", "text", "gpus"),
    [
        pytest.param(False, "nothing is placed here", ["11", "1 wholly free"], id="refused"),
        pytest.param(True, "placed here by allocatable alone", ["11", "8 wholly free"], id="allowed"),
    ],
)
def test_nodes_without_a_fresh_report_count_where_they_take_pods(
    browser: Browser, allowed: bool, text: str, gpus: list[str]
) -> None:
    plain, held = node("plain", {WHOLE: "8"}, labels=GFD_H100), pod("p", {WHOLE: "3"}, on="plain")
    infos = assemble(read_objects(inventory(alike("a", 1), alike("silent", 2), plain, held)), NAMES)
    for name in ("silent", "plain"):
        infos[name] = replace(infos[name], freshness="Missing", by_allocatable=allowed)
    with PageServer(infos.values(), []) as server:
        opened(browser, server.url)
        assert text in card(browser, "silent")
        assert text in card(browser, "plain")
        assert tile(browser, "GPUs") == gpus
        assert re.findall(r"[\d.]+ GiB free", card(browser, "silent")) == ["0 GiB free"] * 2


def test_a_node_known_by_labels_has_no_report(browser: Browser) -> None:
    labelled = node("labelled", {WHOLE: "8"}, labels=GFD_H100)
    with served(alike("a", 1), labelled, pod("p", {WHOLE: "3"}, on="labelled")) as server:
        opened(browser, server.url)
        assert tile(browser, "GPU nodes") == ["2", "1 by labels, 1 report"]
        assert tile(browser, "GPUs") == ["9", "6 wholly free"]
        assert tile(browser, "Allocated") == ["33 %", "3 of 9 in service"]


def test_a_node_of_two_models_counts_with_each(browser: Browser) -> None:
    devices = [gpu(0, "GPU-x"), gpu(1, "GPU-y", model="T4", total=15360, health=SICK)]
    with served(alike("a", 2), gpu_node("mixed", devices)) as server:
        opened(browser, server.url)
        heads = browser.script(
            "return [...document.querySelectorAll('.group')].map((each) => each.innerText.split('\\n'))"
        )
        shown = [[text for text in head if text] for head in heads]
        assert shown == [["A100-80GB", "3 GPUs · 0 %"], ["T4", "1 GPU", "✕ 1 sick"]]
        assert tile(browser, "GPUs")[0] == "4"


def test_all_that_is_of_this_moment_is_one_number(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory(alike("a", 4), node("a", {WHOLE: "4"})))
    with Product(inventory=path) as product:
        product.ready()
        opened(browser, "http://{}:{}/".format(*product.inspect))
        assert (
            figure(browser, "#history", r"allocated[^%]*?(\d+ %)") == tile(browser, "Allocated")[0] == "0 %"
        )
        running = pod("runs", {WHOLE: "3"}, on="a")
        replaced(
            path, inventory(alike("a", 4), node("a", {WHOLE: "4"}), running, pod("hopeful", {WHOLE: "4"}))
        )
        browser.eventually(lambda: "hopeful" in browser.text("#pending"), "a pod waits")
        browser.eventually(lambda: tile(browser, "Allocated")[0] == "75 %", "three are held")
        assert figure(browser, "#history", r"allocated[^%]*?(\d+ %)") == "75 %"
        assert figure(browser, "#map", r"4 GPUs · (\d+ %)") == "75 %"
        assert browser.text("#pending-title").strip() == "Waiting pods (1)"
        assert figure(browser, "#history", r"waiting\s+(\d+ pods?)") == "1 pod"


def test_a_filtered_list_says_that_it_is_a_part(browser: Browser) -> None:
    lines = [line(), line(namespace="other", name="else", uid="e")]
    running = pod("runs", {WHOLE: "1"}, on="a")
    running["metadata"]["namespace"] = "research"
    with served(alike("a", 2), alike("b", 2), running, pending_lines=lines) as server:
        opened(browser, server.url)
        browser.choose("[name=namespace]", "research")
        browser.eventually(lambda: names(browser) == ["a"], "one node is left")
        assert "Totals of the 1 of 2 nodes that the filters leave" in browser.text("#totals")
        assert tile(browser, "Allocated")[0] == "50 %"
        assert "all nodes" in browser.text("#history-title"), "the history is not filtered"
        assert figure(browser, "#history", r"allocated[^%]*?(\d+ %)") == "25 %"
        assert browser.text("#pending-title").strip() == "Waiting pods (1 of 2)"


class TestABrokenSource:
    def test_a_file_that_cannot_be_read(self, browser: Browser, tmp_path: Path) -> None:
        path = tmp_path / "inventory.json"
        path.write_bytes(inventory(alike("a", 1)))
        with Product(inventory=path) as product:
            product.ready()
            opened(browser, "http://{}:{}/".format(*product.inspect))
            assert browser.text("#banner") == ""
            replaced(path, b"{")
            told(
                browser, lambda text: str(path) in text and "The inventory file cannot be read since" in text
            )
            assert "Correct the file" in browser.text("#banner")
            assert "at line 2, column 1" in browser.text("#banner"), "no name but the file's"
            assert names(browser) == ["a"], "what was known stays"
            browser.eventually(lambda: "out of date" in browser.text("#announce"), "the ear is told")
            path.unlink()
            told(browser, lambda text: f"{path}: No such file" in text and "file is missing since" in text)
            assert "Put a file at this path." in browser.text("#banner")
            assert "Correct the file" not in browser.text("#banner")
            replaced(path, inventory(alike("b", 1)))
            browser.eventually(lambda: browser.text("#connection") == "Live", "it goes on")
            assert browser.text("#banner") == ""

    def test_a_watch_that_is_lost(self, browser: Browser) -> None:
        with served(alike("a", 1)) as server:
            opened(browser, server.url)
            server.problems = [
                Problem("watch of pods", "403 Forbidden: <b>may not</b>", 90.0),
                Problem("watch of nodes", "unreachable", 30.0),
            ]
            told(
                browser,
                lambda text: "refuses the extender's watch of pods since" in text and "(2 min)" in text,
            )
            assert "403 Forbidden: <b>may not</b>" in browser.text("#banner")
            assert "Apply the manifests again" in browser.text("#banner")
            assert "The extender's watch of nodes is lost since" in browser.text("#banner")
            earliest = time.strftime("%H:%M", time.localtime(time.time() - 91))
            assert earliest in browser.text("#connection"), "since the first of them"
            server.problems = []
            browser.eventually(lambda: browser.text("#connection") == "Live", "it goes on")

    def test_before_anything_is_known(self, browser: Browser) -> None:
        with served() as server:
            server.problems = [Problem("watch of nodes", "403 Forbidden", 1.0)]
            server.hidden = True
            browser.open(server.url)
            told(browser, lambda text: "watch of nodes" in text and "Nothing is known" in text)
            server.problems = []
            browser.eventually(
                lambda: browser.text("#connection") == "Waiting for the inventory", "it is listed"
            )
            server.hidden = False
            browser.eventually(lambda: browser.text("#connection") == "Live", "it is there")

    @pytest.mark.parametrize(
        ("freshness", "late", "state", "says"),
        [
            pytest.param(
                "Missing", 60, "Out of date since", "No agent reports its GPUs since", id="all are missing"
            ),
            pytest.param(
                "Stale", 4, "In part out of date", "4 stale, 0 missing", id="more than one in twenty"
            ),
        ],
    )
    def test_agents_that_do_not_report(
        self, browser: Browser, freshness: str, late: int, state: str, says: str
    ) -> None:
        objects = [alike(f"n{number:02}", 1) for number in range(60)]
        with served(*objects) as server:
            infos = list(assemble(read_objects(inventory(*objects)), NAMES).values())
            server.extender.replace_nodes(
                [replace(info, freshness=freshness) for info in infos[:3]] + infos[3:]
            )
            opened(browser, server.url)
            browser.eventually(lambda: f"3 {freshness.lower()}" in browser.text("#totals"), "three are late")
            assert browser.text("#banner") == "", "a few late nodes are no reason for a banner"
            changed = [replace(info, freshness=freshness) for info in infos[:late]]
            server.extender.replace_nodes(changed + infos[late:])
            told(browser, lambda text: says in text and f"{late} of 60 nodes" in text)
            assert browser.text("#connection").startswith(state)
            assert "kubectl -n gpu-scheduler-agent get pods" in browser.text("#banner"), "and what to do"
            server.extender.replace_nodes(infos)
            browser.eventually(lambda: browser.text("#connection") == "Live", "they report again")
            assert browser.text("#banner") == ""

    def test_an_extender_that_is_gone(self, browser: Browser) -> None:
        with served(alike("a", 1)) as server:
            opened(browser, server.url)
        told(
            browser, lambda text: "The extender does not answer since" in text and "Start that again" in text
        )
        assert "No answer since" in browser.text("#connection")
        browser.console()


def told(page: Browser, so: Callable[[str], bool]) -> None:
    """Wait for a banner; the page is not live then."""
    page.eventually(lambda: so(page.text("#banner")), "a banner says what is wrong")
    assert page.text("#connection") != "Live"
    assert page.script("return document.getElementById('connection').dataset.state") in ("old", "lost")
