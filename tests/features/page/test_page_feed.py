"""The page's thread: idle without viewers, and never in the way of requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.waiting import MOST_LINES
from scheduler_ext.extender.record import Record
from scheduler_ext.features.page import feed as feed_module
from scheduler_ext.features.page.feed import LastEventId, PageFeed
from scheduler_ext.server.serving import Serving
from scheduler_ext.sources.source_status import Problem, SourceStatus
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod.cached_pod import unreadable_pod
from tests.core.reported import NAMES
from tests.kube_objects import gpu, gpu_node
from tests.server.followed import Followed
from tests.server.process.server_process import eventually


class CountingSource(Followed):
    """One node, and the number of reads of its status."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.broken = False

    def learn(self, freshness: str = "") -> None:
        self.follow(gpu_node("n", [gpu(0)]), freshness=freshness)

    @property
    def snapshot(self) -> Snapshot | None:
        if self.broken:
            raise RuntimeError("as it happens")
        return super().snapshot

    def status(self) -> SourceStatus:
        self.asked += 1
        return super().status()


@pytest.fixture
def source() -> CountingSource:
    return CountingSource()


@pytest.fixture
def feed(source: CountingSource) -> Iterator[PageFeed]:
    feed = PageFeed(source, Record(10, 2**20), list, NAMES, 10, 1800, Serving())
    yield feed
    feed.stop()


def test_nothing_is_computed_without_viewers(
    source: CountingSource, feed: PageFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long this test takes, a viewer is looked up once.
    monkeypatch.setattr(feed_module, "_STATUS_EVERY_S", 3600.0)
    source.learn()
    feed.start()
    eventually(lambda: feed.history.since(0)[0] == 1)
    assert source.asked == 0
    eventually(lambda: feed.since(LastEventId()) is not None)
    assert source.asked == 1


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        pytest.param("ab.1.2.3.4", LastEventId("ab", 1, 2, 3, 4), id="an id"),
        pytest.param("", LastEventId(), id="nothing"),
        pytest.param("ab.1.2.3.²", LastEventId(), id="a digit that is none"),
    ],
)
def test_ids(text: str, seen: LastEventId) -> None:
    assert LastEventId.parse(text) == seen
    assert LastEventId.parse(str(seen)) == seen


def state(feed: PageFeed, seen: str = "") -> dict[str, Any]:
    """The content for a page, which is one without data unless it has seen something."""
    feed.refresh(1000.0)
    told = feed.since(LastEventId.parse(seen))
    assert told is not None
    found: dict[str, Any] = json.loads(told[1])
    return found


def test_another_process_reports_everything(source: CountingSource, feed: PageFeed) -> None:
    source.learn()
    assert state(feed, "of-another.1.0.1.1")["full"] is True


def test_a_fault_of_the_source_is_shown_with_its_beginning(
    source: CountingSource, feed: PageFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "_STATUS_EVERY_S", 0.0)
    source.learn()
    assert (state(feed)["status"]["broken"], state(feed)["status"]["problems"]) == (False, [])
    source.tell(problems=[Problem("watch of pods", "403 Forbidden", 30.0)])
    status = state(feed)["status"]
    assert status["broken"] is True
    assert status["problems"] == [{"what": "watch of pods", "text": "403 Forbidden", "since": 970.0}]
    # The same beginning, however long the looks take.
    source.tell(problems=[Problem("watch of pods", "403 Forbidden", 28.5)])
    assert state(feed)["status"]["problems"][0]["since"] == 970.0
    source.tell(problems=[Problem("watch of pods", "unreachable", 2.0)])
    assert state(feed)["status"]["problems"][0]["since"] == 998.0
    source.tell(problems=[])
    assert (state(feed)["status"]["broken"], state(feed)["status"]["problems"]) == (False, [])


def test_nodes_without_any_report_are_a_problem_since_they_were_seen(
    source: CountingSource, feed: PageFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "_STATUS_EVERY_S", 0.0)
    source.learn("Missing")
    (problem,) = state(feed)["status"]["problems"]
    assert (problem["what"], problem["since"]) == ("agents", 1000.0)
    source.tell(report_ages_s={"n": 400.0})
    assert state(feed)["status"]["problems"][0]["since"] == 600.0, "of the last report, once one is known"
    source.learn("Fresh")
    assert (state(feed)["status"]["broken"], state(feed)["status"]["problems"]) == (False, [])


def test_faults_are_reported_before_the_first_data(source: CountingSource, feed: PageFeed) -> None:
    source.tell(problems=[Problem("watch of nodes", "403 Forbidden", 1.0)])
    feed.refresh(1000.0)
    assert feed.since(LastEventId()) is None
    assert [each["text"] for each in feed.status()["problems"]] == ["403 Forbidden"]


def test_a_page_that_cannot_be_kept_says_so(source: CountingSource, feed: PageFeed) -> None:
    source.learn()
    feed.start()
    eventually(lambda: feed.since(LastEventId()) is not None)
    assert not feed.status().get("broken")
    source.broken = True
    eventually(lambda: bool(feed.since(LastEventId())) and feed.status()["broken"])
    (problem,) = feed.status()["problems"]
    assert (problem["what"], problem["text"]) == ("page", "unexpected error; see the log")
    source.broken = False
    eventually(lambda: bool(feed.since(LastEventId())) and not feed.status()["broken"])


def test_an_endless_look_is_reported_once_it_is_late(
    source: CountingSource, feed: PageFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.learn()
    assert not state(feed)["status"]["broken"], "who begins to watch waits for the first look"
    monkeypatch.setattr(feed_module, "_LATE_S", -1.0)
    feed.since(LastEventId())
    (problem,) = feed.status()["problems"]
    assert "too busy" in problem["text"]


@pytest.mark.parametrize(
    ("lines", "state_of_each", "waiting", "total"),
    [
        pytest.param(0, "", 1, 0, id="a pod that came after the lines were made is in neither"),
        pytest.param(1, "Terminating", 0, 0, id="a pod that is being deleted does not wait"),
        pytest.param(MOST_LINES, "Waiting", 700, 700, id="of more than are listed all are counted"),
    ],
)
def test_as_many_wait_as_are_listed(
    source: CountingSource, lines: int, state_of_each: str, waiting: int, total: int
) -> None:
    feed = PageFeed(
        source, Record(10, 2**20), lambda: [{"state": state_of_each}] * lines, NAMES, 10, 1800, Serving()
    )
    source.learn()
    source.pods = [unreadable_pod(kube.Pod(), "")] * waiting
    assert state(feed)["pending"]["total"] == total
