"""After an outage of the API server all its clients continue at once, whatever they waited for.

All own waits except the first last an hour here: no client continues by them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_ext.cluster import advertise as advertise_module
from scheduler_ext.cluster import reflector as reflector_module
from scheduler_ext.cluster.api_paths import BUDGETS
from scheduler_ext.cluster.client import availability as availability_module
from scheduler_ext.cluster.client.retry import Backoff
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.events import event_recorder as event_recorder_module
from tests.cluster.api.api_faults import End, Hang, Mute, Refuse, Reset
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import Match, watches
from tests.cluster.api.api_server import ApiServer
from tests.cluster.enforced import Enforced
from tests.cluster.following import eventually
from tests.cluster.living import Living
from tests.kube_objects import gpu, node

HOUR = 3600.0


class Patient(Backoff):
    """Waits for a moment after the first failure, and for an hour after the next."""

    def __init__(self, *_: float) -> None:
        super().__init__(HOUR, HOUR)
        self._failed = False

    def wait_s(self, retry_after_s: float | None = None) -> float:
        first, self._failed = not self._failed, True
        return 0.01 if first and retry_after_s is None else super().wait_s(retry_after_s)

    def reset(self) -> None:
        self._failed = False


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    """An outage is known at the first lost request; tries in turns follow quickly."""
    monkeypatch.setattr(availability_module, "QUIET_S", 0.0)
    monkeypatch.setattr(availability_module, "PROBE_S", 0.02)
    for module in (reflector_module, advertise_module, event_recorder_module):
        monkeypatch.setattr(module, "Backoff", Patient)


@pytest.fixture
def living(server: ApiServer, transport: Transport, patient: None) -> Iterator[Living]:
    built = Living(server, transport)
    built.start()
    built.greeted()
    yield built
    server.faults.lift()
    built.live.stop()


def connected(living: Living) -> set[str]:
    return {watch.name for watch in living.live.status().watches if watch.connected}


ALL = {"nodes", "gpunodes", "pods", "poddisruptionbudgets"}


@pytest.fixture
def away(living: Living) -> Living:
    """Every watch knows of the outage."""
    living.server.stop()
    eventually(lambda: not connected(living))
    eventually(
        lambda: all(watch.restarts[watch.name, "unreachable"] >= 2 for watch in living.live._reflectors)
    )
    return living


def test_every_watch_is_back_when_the_server_is(away: Living) -> None:
    away.server.store.put(NODES, node("c", {"nvidia.com/gpu": "1"}))
    away.report("c", gpu(0))
    away.server.store.compact()
    away.server.start()
    away.fits("abc")
    eventually(lambda: connected(away) == ALL)


def but(kept: str) -> Match:
    """Watches of all other kinds."""
    return lambda request: request.watch and request.path != kept


def test_when_one_watch_is_back_the_others_are_tried(away: Living) -> None:
    """A starting server refuses some of them once."""
    refusals = {
        path: away.server.faults.place(Refuse(503), watches(path), times=2) for path in (NODES, PODS, BUDGETS)
    }
    held = away.server.faults.place(Hang(), watches(GPU_NODES))
    away.server.start()
    eventually(lambda: all(refusal.left == 0 for refusal in refusals.values()))
    eventually(
        lambda: all(
            watch.restarts[watch.name, "refused"] == 2
            for watch in away.live._reflectors
            if watch.name != "gpunodes"
        )
    )
    assert connected(away) == set()
    held.lift()
    eventually(lambda: connected(away) == ALL)


def test_a_connection_that_died_unseen_is_renewed(living: Living) -> None:
    """No event came on it since before the outage: the server may have forgotten it."""
    mute = living.server.faults.place(Mute(), watches(BUDGETS))
    eventually(lambda: mute.hits == 1)
    living.server.log.clear()
    lost = living.server.faults.place(Reset(), times=None)
    living.server.faults.place(End("reset"), but(BUDGETS), times=3)
    eventually(lambda: connected(living) == {"poddisruptionbudgets"})
    eventually(lambda: lost.hits > 6)
    assert living.server.log.count(watches(BUDGETS)) == 0
    lost.lift()
    living.server.log.wait_for(watches(BUDGETS))
    eventually(lambda: connected(living) == ALL)
    mute.lift()


def test_a_watch_that_is_not_answered_is_begun_again(
    server: ApiServer, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A balancer may keep a connection to a dead server; each time the patience grows."""
    monkeypatch.setattr(reflector_module, "ANSWER_S", 0.1)
    monkeypatch.setattr(reflector_module, "Backoff", lambda: Backoff(0.01, 0.01))
    asked: list[float] = []
    watch = transport.watch

    def noted(path: str, query: dict[str, str], answer_s: float) -> object:
        if path == PODS:
            asked.append(answer_s)
        return watch(path, query, answer_s=answer_s)

    monkeypatch.setattr(transport, "watch", noted)
    hanging = server.faults.place(Hang(), watches(PODS), times=3)
    built = Living(server, transport)
    built.start()
    try:
        eventually(lambda: len(asked) >= 4)
        assert hanging.hits == 3
        # A slow machine may miss the fourth in time too.
        assert asked[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    finally:
        hanging.lift()
        built.live.stop()


@pytest.fixture
def enforced(server: ApiServer, transport: Transport) -> Iterator[Enforced]:
    """Its own pod has the Lease, it binds, and no watch has anything left to read."""
    built = Enforced(server, transport)
    built.held_by("me_1")
    built.start()
    eventually(lambda: built.live.enforcing is not None and built.live.enforcing.why_not() is None)
    built.greeted()
    built.follows("c")
    yield built
    built.live.stop()


def test_open_binds_are_looked_after_when_the_server_is_back(
    enforced: Enforced, server: ApiServer, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: list[bool] = []
    assert enforced.live.binder is not None
    monkeypatch.setattr(enforced.live.binder, "look_again", lambda: again.append(True))
    server.stop()
    eventually(lambda: not connected(enforced))
    eventually(lambda: transport.server.away)
    assert again == []
    server.start()
    eventually(lambda: bool(again))
