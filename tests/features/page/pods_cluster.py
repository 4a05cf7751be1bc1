"""Waiting and running pods, one with a hostile name, and steps of a reader between their dialogs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.waiting import WaitingPods
from scheduler_ext.wire.config import Configuration
from tests.features.page.browser import Browser
from tests.features.page.conditions import LONG, RIGHT_TO_LEFT, WHOLE
from tests.features.page.page_server import PageServer
from tests.kube_objects import Json, gpu, gpu_node, holder, names_body, node, pod

IMAGE = "<img src=x onerror=document.title='harm'>"
USED = {"totalMiB": 81920, "reservedMiB": 0, "usedMiB": 30720, "unaccountedMiB": 0}
MANY = 230


def of(namespace: str, asking: Json, at: str = "2026-11-01T00:00:00Z") -> Json:
    asking["metadata"] |= {"namespace": namespace, "creationTimestamp": at}
    if asking["spec"]["nodeName"]:
        asking["status"]["startTime"] = at
    return asking


WANTS = of("research", pod("wants", {WHOLE: "4"}, priority=9))


def objects() -> list[Json]:
    train = [holder("train", "research", container="main"), {"uid": "uid-train", "memoryMiB": 30720}]
    hostile = [holder(IMAGE, RIGHT_TO_LEFT)]
    return [
        gpu_node("busy", [gpu(0), gpu(1, "GPU-train", memory=USED, holders=train)]),
        node("busy", {WHOLE: "2"}),
        gpu_node(LONG, [gpu(0, "GPU-long", holders=hostile)]),
        gpu_node("crowd", [gpu(0, "GPU-crowd")]),
        # With room for a pod that waits: kube-scheduler does not offer it.
        gpu_node("roomy", [gpu(index, f"GPU-roomy-{index}") for index in range(4)]),
        of("research", pod("train", {WHOLE: "1"}, on="busy", priority=5)),
        of(RIGHT_TO_LEFT, pod(IMAGE, {WHOLE: "1"}, on=LONG)),
        *(of("batch", pod(f"job-{number:03}", {WHOLE: "1"}, on="crowd")) for number in range(MANY)),
    ]


def follow(server: PageServer, *more: Json) -> None:
    """Give the server these pods beside the others."""
    # Lines stand for pods where there are none.
    server.pending_lines = []
    server.follow(*objects(), *more)
    explainer = Explainer(server, server.extender.record, Configuration())
    server.pending_lines = WaitingPods(server, server.extender.record, explainer).lines()


def goes_to(page: Browser, server: PageServer, address: str) -> None:
    """Open an address from elsewhere."""
    page.open("about:blank")
    page.open(server.url + address)
    page.eventually(lambda: page.text("#connection") == "Live", "the page is live")


def shows(page: Browser, title: str, *texts: str) -> None:
    """Wait until the dialog about something has these texts."""
    page.eventually(
        lambda: page.text("dialog[open] h2") == title and all(each in page.text("dialog") for each in texts),
        f"{title} with {texts}",
    )


def follows(page: Browser, text: str) -> None:
    """Click on the first link of the dialog with this text."""
    page.script(
        "const all = [...document.querySelectorAll('dialog a')];"
        "const link = all.find((each) => each.innerText.includes(arguments[0]));"
        "link.focus(); link.click()",
        text,
    )


@contextmanager
def pods_server() -> Iterator[PageServer]:
    """The page over these pods, after one request of kube-scheduler."""
    with PageServer() as running:
        follow(running, WANTS)
        answer = running.extender.filter(names_body(WANTS, ["busy", "crowd"]), float("inf"))
        running.extender.record.answered("filter", answer)
        yield running
