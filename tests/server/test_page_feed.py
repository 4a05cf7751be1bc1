"""The page's thread: idle while nobody watches, and never in the way of who asks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence

import pytest

from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node import PendingPod
from scheduler_ext.core.snapshot import Snapshot
from scheduler_ext.extender.record import Record
from scheduler_ext.extender.service import Extender
from scheduler_ext.extender.status import Check, SourceStatus
from scheduler_ext.server.page.feed import PageFeed, Seen
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects
from tests.core.reported import NAMES
from tests.kube_objects import gpu, gpu_node, inventory
from tests.server.server_process import eventually


class CountingSource:
    """One node, and how often anybody wanted to know how it goes."""

    def __init__(self) -> None:
        self.extender = Extender(Configuration())
        self.asked = 0
        self.broken = False

    def learn(self) -> None:
        infos = assemble(read_objects(inventory(gpu_node("n", [gpu(0)]))), NAMES)
        self.extender.replace_nodes(infos.values())

    @property
    def snapshot(self) -> Snapshot | None:
        if self.broken:
            raise RuntimeError("as it happens")
        return self.extender.snapshot

    def pending(self) -> Sequence[PendingPod]:
        return ()

    def node_facts(self) -> Mapping[str, NodeFacts]:
        return {}

    def status(self) -> SourceStatus:
        self.asked += 1
        return SourceStatus([Check("inventory", True)], 0.0)


@pytest.fixture
def source() -> CountingSource:
    return CountingSource()


@pytest.fixture
def feed(source: CountingSource) -> Iterator[PageFeed]:
    feed = PageFeed(source, Record(10, 2**20), list, NAMES, 10)
    yield feed
    feed.stop()


def test_before_the_first_inventory_nothing_is_known(source: CountingSource, feed: PageFeed) -> None:
    feed.start()
    assert feed.since(Seen()) is None


def test_nothing_is_worked_out_while_nobody_watches(source: CountingSource, feed: PageFeed) -> None:
    source.learn()
    feed.start()
    eventually(lambda: feed.history.since(0)[0] == 1)
    assert source.asked == 0
    eventually(lambda: feed.since(Seen()) is not None)
    assert source.asked == 1


def test_what_goes_wrong_once_does_not_end_it(
    source: CountingSource, feed: PageFeed, caplog: pytest.LogCaptureFixture
) -> None:
    source.learn()
    source.broken = True
    feed.start()
    assert feed.since(Seen()) is None
    eventually(lambda: "the page was not brought up to date" in caplog.text)
    source.broken = False
    eventually(lambda: feed.since(Seen()) is not None)


def test_it_stops_at_once(source: CountingSource, feed: PageFeed) -> None:
    source.learn()
    feed.start()
    feed.stop()
    started = time.monotonic()
    feed.stop()
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        pytest.param("ab.1.2.3.4", Seen("ab", 1, 2, 3, 4), id="an id"),
        pytest.param("", Seen(), id="nothing"),
        pytest.param("ab.1.2.3", Seen(), id="too short"),
        pytest.param("ab.1.2.3.x", Seen(), id="no number"),
        pytest.param("ab.1.2.3.²", Seen(), id="a digit that is none"),
    ],
)
def test_ids(text: str, seen: Seen) -> None:
    assert Seen.parse(text) == seen
    assert Seen.parse(str(seen)) == seen


def test_another_process_tells_everything(source: CountingSource, feed: PageFeed) -> None:
    source.learn()
    feed.start()
    eventually(lambda: feed.since(Seen()) is not None)
    other = Seen("of-another", 1, 0, 1, 1)
    told = feed.since(other)
    assert told is not None
    assert json.loads(told[1])["full"] is True
