"""The page on a phone, and a node's details there; and the values that only some agents report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_ext.wire.objects import assemble, read_objects
from scheduler_ext.wire.readings import readings_of
from tests.core.reported import NAMES
from tests.kube_objects import gpu, gpu_node, holder, inventory, pod
from tests.page.browser import NEEDS_BROWSER, Browser
from tests.page.conditions import WAITING
from tests.page.page_server import PageServer
from tests.page.reading import card, opened

pytestmark = NEEDS_BROWSER

LONG_NAME = "a-training-job-with-a-long-name-0"
IDLE = {"totalMiB": 81920, "reservedMiB": 620}
MEMORY = {"totalMiB": 81920, "reservedMiB": 620, "usedMiB": 40960, "unaccountedMiB": 1024}


@pytest.fixture(scope="module")
def some() -> Iterator[PageServer]:
    train = pod(LONG_NAME, {"nvidia.com/gpu": "1"}, on="measured")
    train["metadata"] |= {"namespace": "a-namespace-with-a-long-name", "uid": "train"}
    held = [holder(LONG_NAME, "a-namespace-with-a-long-name", uid="train")]
    devices = [
        gpu(0, memory=MEMORY, holders=held, utilizationPercent=87, temperatureCelsius=61),
        gpu(1, utilizationPercent=0),
    ]
    nodes = (gpu_node("measured", devices), gpu_node("plain", [gpu(0, "GPU-p", memory=IDLE)]), train)
    objects = read_objects(inventory(*nodes))
    server = PageServer(assemble(objects, NAMES).values(), WAITING)
    server.readings = readings_of(objects.gpu_nodes)
    with server as running:
        yield running


@pytest.fixture
def sized(browser: Browser, some: PageServer, request: pytest.FixtureRequest) -> Iterator[Browser]:
    width: int = request.param
    browser.devtools(
        "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=False
    )
    opened(browser, some.url)
    yield browser
    browser.devtools("Emulation.clearDeviceMetricsOverride")


def details(page: Browser, name: str) -> str:
    page.script(
        "[...document.querySelectorAll('.card button')].find((e) => e.innerText == arguments[0]).click()",
        name,
    )
    table = "return document.querySelector('#detail [aria-label=GPUs]')?.textContent ?? ''"
    page.eventually(lambda: "Held by" in page.script(table), "its details are shown")
    return page.text("#detail")


_HIDDEN = """
const dialog = document.getElementById('detail'), edge = dialog.getBoundingClientRect().right;
const cut = [...dialog.querySelectorAll('td, th')].filter((e) => e.getBoundingClientRect().right > edge);
return [dialog.scrollWidth - dialog.clientWidth, cut.length];
"""


@pytest.mark.parametrize("sized", [390, 1024], indirect=True)
def test_a_node_shows_what_is_free_and_who_holds_the_rest_without_a_scroll_sideways(sized: Browser) -> None:
    shown = details(sized, "measured")
    assert LONG_NAME in shown
    assert sized.script(_HIDDEN) == [0, 0]
    free, held = (
        sized.script(f"return document.querySelector('#detail {cell}').getBoundingClientRect().bottom")
        for cell in ("td.free-of", "td.held-by")
    )
    assert max(free, held) <= 844, "of the first GPU at the first look"


@pytest.mark.parametrize(
    ("sized", "first"),
    [pytest.param(390, "waiting", id="a phone"), pytest.param(1440, "map", id="a usual screen")],
    indirect=["sized"],
)
def test_waiting_pods_come_first_on_a_phone(sized: Browser, first: str) -> None:
    order = sized.script(
        "const tops = [...document.querySelectorAll('#waiting, #map, #nodes')].map((e) => e.id);return tops"
    )
    assert order[0] == first, "for Tab and for the ear"
    assert "research" in sized.text("#waiting")
    if first == "waiting":
        top = "return document.getElementById(arguments[0]).getBoundingClientRect().top"
        assert sized.script(top, "waiting") < sized.script(top, "map") < sized.script(top, "nodes")


@pytest.mark.parametrize("sized", [1440], indirect=True)
def test_use_and_temperature_are_shown_where_reports_have_them(sized: Browser) -> None:
    assert "87 % busy. 61 °C." in card(sized, "measured")
    assert "busy" not in card(sized, "plain")
    assert "% busy" in sized.text("#nodes-legend")
    shown = details(sized, "measured")
    assert [text for text in ("Busy", "87 %", "Temperature", "61 °C") if text not in shown] == []
    sized.script("document.querySelector('dialog').close()")
    shown = details(sized, "plain")
    assert [text for text in ("Busy", "Temperature") if text in shown] == [], "no empty columns"


@pytest.mark.parametrize("sized", [1440], indirect=True)
def test_the_details_name_what_is_kept_back(sized: Browser) -> None:
    assert "0.6 GiB kept back" in details(sized, "plain"), "by the driver"
