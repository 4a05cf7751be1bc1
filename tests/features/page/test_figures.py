"""One number for each fact, and a page that says when its numbers may be old."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from scheduler_ext.sources.source_status import Problem
from scheduler_ext.wire.objects import assemble, read_objects
from tests.core.reported import NAMES
from tests.features.page.browser import NEEDS_BROWSER, Browser
from tests.features.page.conditions import WHOLE, line
from tests.features.page.page_server import PageServer
from tests.features.page.reading import card, details, names, opened
from tests.kube_objects import GFD_H100, Json, gpu, gpu_node, inventory, node, pod

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


def test_what_is_held_without_the_devices_being_known(browser: Browser) -> None:
    with PageServer().follow(*HELD) as server:
        opened(browser, server.url)
        text = card(browser, "eight")
        assert "at least 4 GPUs held, devices unknown" in text
        assert text.count("at most 79.4 GiB free: a pod may hold it") == 8, "no GPU is free for sure"
        text = card(browser, "sliced")
        assert "at least 1 × 1g.10gb held, devices unknown" in text
        assert text.count("may be held") == 2
        text = card(browser, "slices")
        assert "at least 3 replicas held, devices unknown" in text
        assert text.count("≥ 0 of 4 replicas held") == 2
        # Of the eight four, of the two instances one; replicas take no memory for themselves.
        free = 4 * 81297 + 2 * 81297 + 81920 - 9728
        assert tile(browser, "Free")[0] == f"≤ {free / 1024:.0f} GiB"
        # Four of eight are left, and of the two that are shared the one that no replica has to be on.
        assert tile(browser, "GPUs") == ["11", "5 wholly free"]
        assert tile(browser, "Allocated") == ["48 %", "5.3 of 11 in service"]
        text = details(browser, "eight")
        assert "default/train" in text
        assert (text.count("≤ 79.4 GiB"), text.count("may be held")) == (8, 8)
        assert "nobody" not in text


def test_gpus_that_are_not_offered_are_not_free(browser: Browser) -> None:
    partly = [alike("six", 8), node("six", {WHOLE: "6"}), alike("none", 2), node("none", {WHOLE: "0"})]
    failed = {"nvidia.com/mig.config.state": "failed"}
    partly += [alike("changing", 2), node("changing", {WHOLE: "2"}, labels=failed)]
    with PageServer().follow(*partly, node("labels", {WHOLE: "6"}, labels=GFD_H100)) as server:
        opened(browser, server.url)
        assert tile(browser, "GPUs") == ["20", "12 wholly free"]
        assert tile(browser, "Free")[0] == f"{6 * 81297 / 1024:.0f} GiB"
        text = card(browser, "six")
        assert "2 GPUs not offered by the device plugin" in text
        assert (
            text.count("at most 79.4 GiB free: a pod may hold it, or the device plugin may not offer it") == 8
        )
        assert card(browser, "none").count("⊘ not offered") == 2
        assert "2 GPUs not offered by the device plugin" in card(browser, "labels")
        assert "2 GPUs not offered: allocatable has 6 nvidia.com/gpu" in details(browser, "six")


def test_nodes_without_a_fresh_report_count_where_they_take_pods(browser: Browser) -> None:
    plain, held = node("plain", {WHOLE: "8"}, labels=GFD_H100), pod("p", {WHOLE: "3"}, on="plain")
    infos = assemble(read_objects(inventory(alike("a", 1), alike("silent", 2), plain, held)), NAMES)
    for name, allowed in (("silent", False), ("plain", True)):
        infos[name] = replace(infos[name], freshness="Missing", by_allocatable=allowed)
    with PageServer(infos.values(), []) as server:
        opened(browser, server.url)
        assert "nothing is placed here" in card(browser, "silent")
        assert "placed here by allocatable alone" in card(browser, "plain")
        assert tile(browser, "GPUs") == ["11", "6 wholly free"]
        assert re.findall(r"[\d.]+ GiB free", card(browser, "silent")) == ["0 GiB free"] * 2


def test_all_that_is_of_this_moment_is_one_number(browser: Browser) -> None:
    running = pod("runs", {WHOLE: "3"}, on="a")
    with PageServer((), [line()]).follow(alike("a", 4), node("a", {WHOLE: "4"}), running) as server:
        opened(browser, server.url)
        assert tile(browser, "Allocated")[0] == "75 %"
        assert figure(browser, "#history", r"allocated[^%]*?(\d+ %)") == "75 %"
        assert figure(browser, "#map", r"4 GPUs · (\d+ %)") == "75 %"
        assert browser.text("#pending-title").strip() == "Waiting pods (1)"
        assert figure(browser, "#history", r"waiting\s+(\d+ pods?)") == "1 pod"


def test_a_filtered_list_says_that_it_is_a_part(browser: Browser) -> None:
    lines = [line(), line(namespace="other", name="else", uid="e")]
    running = pod("runs", {WHOLE: "1"}, on="a")
    running["metadata"]["namespace"] = "research"
    with PageServer((), lines).follow(alike("a", 2), alike("b", 2), running) as server:
        opened(browser, server.url)
        browser.choose("[name=namespace]", "research")
        browser.eventually(lambda: names(browser) == ["a"], "one node is left")
        assert "Totals of the 1 of 2 nodes that the filters leave" in browser.text("#totals")
        assert tile(browser, "Allocated")[0] == "50 %"
        assert "all nodes" in browser.text("#history-title"), "the history is not filtered"
        assert figure(browser, "#history", r"allocated[^%]*?(\d+ %)") == "25 %"
        assert browser.text("#pending-title").strip() == "Waiting pods (1 of 2)"


class TestABrokenSource:
    def test_each_fault_is_told_until_it_is_mended(self, browser: Browser) -> None:
        with PageServer().follow(alike("a", 1)) as server:
            opened(browser, server.url)
            assert browser.text("#banner") == ""
            problems = [
                Problem("inventory file", "/inventory.json: neither YAML nor JSON", 1.0),
                Problem("watch of pods", "403 Forbidden: <b>may not</b>", 90.0),
            ]
            server.tell(problems=problems)
            told(
                browser, lambda text: "The inventory file cannot be read since" in text and "(2 min)" in text
            )
            assert "Correct the file" in browser.text("#banner")
            assert "refuses the extender's watch of pods since" in browser.text("#banner")
            assert "403 Forbidden: <b>may not</b>" in browser.text("#banner")
            assert names(browser) == ["a"], "what was known stays"
            browser.eventually(lambda: "out of date" in browser.text("#announce"), "the ear is told")
            server.tell(problems=[])
            browser.eventually(lambda: browser.text("#connection") == "Live", "it goes on")
            assert browser.text("#banner") == ""

    def test_agents_that_do_not_report(self, browser: Browser) -> None:
        objects = inventory(*(alike(f"n{number:02}", 1) for number in range(60)))
        infos = list(assemble(read_objects(objects), NAMES).values())
        with PageServer() as server:

            def late(number: int, freshness: str) -> None:
                changed = [replace(info, freshness=freshness) for info in infos[:number]]
                server.set(changed + infos[number:])

            late(3, "Stale")
            opened(browser, server.url)
            browser.eventually(lambda: "3 stale" in browser.text("#totals"), "three are late")
            assert browser.text("#banner") == "", "a few late nodes are no reason for a banner"
            late(4, "Stale")
            told(browser, lambda text: "4 stale, 0 missing" in text and "4 of 60 nodes" in text)
            assert browser.text("#connection").startswith("In part out of date")
            late(60, "Missing")
            told(browser, lambda text: "No agent reports its GPUs since" in text)
            assert browser.text("#connection").startswith("Out of date since")
            assert "kubectl -n gpu-scheduler-agent get pods" in browser.text("#banner"), "and what to do"
            late(0, "Fresh")
            browser.eventually(lambda: browser.text("#connection") == "Live", "they report again")
            assert browser.text("#banner") == ""


def told(page: Browser, so: Callable[[str], bool]) -> None:
    """Wait for a banner; the page is not live then."""
    page.eventually(lambda: so(page.text("#banner")), "a banner says what is wrong")
    assert page.text("#connection") != "Live"
    assert page.script("return document.getElementById('connection').dataset.state") in ("old", "lost")
