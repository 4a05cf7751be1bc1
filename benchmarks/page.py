"""The cost of the live page on a large cluster: bytes, frames, and the effect of watching on filter's
latency.

    python -m benchmarks.page --nodes 5000 --pods 50000 --json FILE
    python -m benchmarks.page --png docs/features/page/page.png

The cluster is that of benchmarks.live, with its 500 events a second and the reports of all agents. In rounds,
filter is measured without a page and with three pages (as their requests, without a browser); then a headless
Chromium opens the page. With --png it only takes a picture of a made-up cluster of 97 nodes.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.connection import Connection
from benchmarks.live import Round, ask, await_ready, filter_requests, percentiles_us, running_api
from benchmarks.page_picture import take_picture
from benchmarks.page_watcher import Watcher
from benchmarks.processes import running_listeners
from benchmarks.report import aligned
from scheduler_ext.machine import describe_machine, machine_line
from tests.features.page.browser import Browser

_PAGES = 3
# Pixels a second: reading speed, and the fastest turn of the wheel.
_SCROLLS = {"reading": 2000, "flicking": 8000}
# Measured inside the browser: the time between frames while the list is scrolled.
_SCROLL = """
const port = document.querySelector('.port'), [speed, seconds] = arguments;
const frames = [], started = performance.now(); let last = started;
window.framesMs = null;
const step = (now) => {
  frames.push(now - last); last = now;
  port.scrollTop = speed * (now - started) / 1000;
  now - started < 1000 * seconds ? requestAnimationFrame(step) : (window.framesMs = frames.slice(1));
};
requestAnimationFrame(step);
"""
# How long the last drawing of the map and of the list took.
_DRAWN = "const {mapMs, listMs} = document.getElementById('foot').dataset; return [+mapMs, +listMs]"


class NoFramesError(Exception):
    """The browser's window draws no frames, though the page in it answers."""


@contextmanager
def watched(url: str) -> Iterator[None]:
    """While some pages that have received the whole state watch; in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.page_watcher", url, str(_PAGES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.terminate()


def streamed(url: str, seconds: float) -> dict[str, Any]:
    """The bytes of the first state, and of the changes a second, for one page."""
    watcher = Watcher(url)
    started = time.monotonic()
    watcher.ask_first()
    first_s = time.monotonic() - started
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(1.0)
        watcher.ask()
    first, *changes = watcher.replies
    return {
        "firstSeconds": round(first_s, 2),
        "firstBytes": first[0],
        "firstTextBytes": first[1],
        "changeBytes": round(statistics.median(each[0] for each in changes)),
        "changeTextBytes": round(statistics.median(each[1] for each in changes)),
    }


def scrolled(browser: Browser, speed: float, seconds: float) -> dict[str, float]:
    """Milliseconds between frames, and of work for each. Raises NoFramesError."""
    before = _task_seconds(browser)
    browser.script(_SCROLL, speed, seconds)
    until = time.monotonic() + seconds + 30.0
    while (found := browser.script("return window.framesMs")) is None:
        if time.monotonic() > until:
            raise NoFramesError(f"Chromium drew no frames for {seconds + 30.0:.0f} s")
        time.sleep(0.05)
    frames = sorted(found)
    return {
        "FrameP50Ms": round(frames[len(frames) // 2], 1),
        "FrameP95Ms": round(frames[int(len(frames) * 0.95)], 1),
        "WorkMs": round(1000 * (_task_seconds(browser) - before) / len(frames), 1),
    }


def _task_seconds(browser: Browser) -> float:
    metrics = browser.devtools("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


def drawn(url: str, seconds: float) -> dict[str, Any]:
    """The browser's own figures, in milliseconds; from a second browser if the first draws no frames, as
    headless Chromium does once in many runs.
    """
    try:
        return _drawn(url, seconds)
    except NoFramesError as error:
        print(f"{error}; another browser is started", file=sys.stderr)
        return _drawn(url, seconds)


def _drawn(url: str, seconds: float) -> dict[str, Any]:
    with Browser() as browser:
        browser.devtools("Performance.enable")
        started = time.monotonic()
        browser.open(url)
        browser.eventually(lambda: browser.text("#connection") == "Live", "the page is live", 60)
        browser.eventually(lambda: browser.text("#foot") != "", "the page is drawn", 60)
        first_s = time.monotonic() - started
        draws = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            draws.append(browser.script(_DRAWN))
            time.sleep(1.0)
        frames = {kind: scrolled(browser, speed, seconds / 2) for kind, speed in _SCROLLS.items()}
        heap = browser.devtools("Runtime.getHeapUsage")["usedSize"]
        return {
            "firstSeconds": round(first_s, 2),
            "mapMs": round(statistics.median(each[0] for each in draws[1:]), 1),
            "listMs": round(statistics.median(each[1] for each in draws[1:]), 1),
            **{f"{kind}{name}": value for kind, each in frames.items() for name, value in each.items()},
            "nodesInDocument": browser.script(
                "return document.querySelectorAll('#nodes [data-name]').length"
            ),
            "elements": browser.script("return document.querySelectorAll('*').length"),
            "heapMB": round(heap / 1e6, 1),
        }


def one_round(
    connection: Connection, requests: Iterator[bytes], events: str, seconds: float, watched_first: int
) -> Round:
    """Filter's latency with and without pages, in alternating order, because the second meets a busier
    machine.
    """
    each: Round = {}
    for phase in ("watched", "alone") if watched_first else ("alone", "watched"):
        with watched(events) if phase == "watched" else nullcontext():
            ask(connection, requests, time.monotonic() + 1.0)
            each[phase] = ask(connection, requests, time.monotonic() + seconds)
        if phase == "watched":
            # How long a page counts as open after its last request.
            time.sleep(11.0)
    return each


def run(nodes: int, pods: int, rate: float, rounds: int, seconds: float) -> dict[str, Any]:
    """The report, as plain JSON values."""
    with running_api(nodes, pods, rate) as (api, kubeconfig):
        listen = [f"--{name}listen=127.0.0.1:0" for name in ("", "health-", "inspect-")]
        serve = [sys.executable, "-m", "scheduler_ext", "serve", "--kubeconfig", kubeconfig, *listen]
        with running_listeners(serve) as url_of:
            await_ready(url_of("health"))
            page = f"{url_of('inspect')}/page/"
            stream = streamed(f"{page}events", 2.0)
            connection = Connection(url_of("api"))
            requests = filter_requests(connection, nodes)
            ask(connection, requests, time.monotonic() + 1.0)
            api.send_signal(signal.SIGUSR1)
            measured = [
                one_round(connection, requests, f"{page}events", seconds, n % 2) for n in range(rounds)
            ]
            connection.close()
            stream |= {
                name: value for name, value in streamed(f"{page}events", seconds).items() if "change" in name
            }
            return {
                "machine": describe_machine(),
                "nodes": nodes,
                "pods": pods,
                "eventsPerSecond": rate,
                "stream": stream,
                "filter": {
                    phase: {
                        f"p{percent}Us": round(statistics.median(percentiles_us(measured, phase, percent)), 1)
                        for percent in (50, 90, 99)
                    }
                    for phase in ("alone", "watched")
                },
                "browser": drawn(page, seconds),
            }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rate", type=float, default=500, help="events a second")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each phase")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--png", type=Path, help="take a picture of a made-up cluster instead")
    parser.add_argument("--dark", action="store_true", help="in the dark scheme")
    parser.add_argument("--smoke", action="store_true", help="small and short: does it run?")
    asked = parser.parse_args()
    if asked.png is not None:
        take_picture(asked.png, dark=asked.dark)
        return
    if asked.smoke:
        asked.nodes, asked.pods, asked.rounds, asked.seconds = 200, 2000, 1, 3.0
    report = run(asked.nodes, asked.pods, asked.rate, asked.rounds, asked.seconds)
    if asked.json is not None:
        asked.json.write_text(json.dumps(report, indent=2) + "\n")
    print(machine_line(report["machine"]))
    rows = [("part", "what", "value")]
    for part in ("stream", "browser"):
        rows += [(part, name, str(value)) for name, value in report[part].items()]
    for phase, latency in report["filter"].items():
        rows += [(f"filter {phase}", name, str(value)) for name, value in latency.items()]
    print(aligned(rows))


if __name__ == "__main__":
    main()
