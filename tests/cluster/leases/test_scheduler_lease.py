"""The writing extender: the one whose own pod holds the Lease."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from scheduler_ext.cluster import reflector as reflector_module
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.scheduler_lease import Leadership
from tests.cluster.api.api_faults import End, Mute, Placed, Refuse
from tests.cluster.api.api_paths import LEASES
from tests.cluster.api.api_requests import watches
from tests.cluster.api.api_server import ApiServer
from tests.cluster.candidates import Clock
from tests.cluster.following import eventually
from tests.kube_objects import Json

pytestmark = pytest.mark.usefixtures("impatient")
PATH = "/apis/coordination.k8s.io/v1/namespaces/gpu-scheduler/leases"


def lease(holder: str | None, name: str = "gpu-scheduler", **spec: object) -> Json:
    metadata = {"name": name, "namespace": "gpu-scheduler"}
    return {"metadata": metadata, "spec": {"holderIdentity": holder} | spec}


@pytest.fixture
def leading(transport: Transport) -> Iterator[Leadership]:
    built = Leadership(transport, "gpu-scheduler", "gpu-scheduler", "me-7f9")
    yield built
    built.reflectors[0].stop()


def follow(leading: Leadership) -> None:
    leading.reflectors[0].start()
    eventually(leading.reflectors[0].synced.is_set)


@pytest.mark.parametrize(
    ("holder", "active"),
    [
        pytest.param("me-7f9_0a1b", True, id="our own pod"),
        pytest.param("other-5c4_0a1b", False, id="another pod"),
        pytest.param("me-7f9x_0a1b", False, id="a pod whose name begins like ours"),
        pytest.param("me-7f9", False, id="no identity of kube-scheduler's"),
        pytest.param(None, False, id="no pod"),
    ],
)
def test_the_extender_beside_the_holder_of_the_lease_is_active(
    server: ApiServer, leading: Leadership, holder: str | None, active: bool
) -> None:
    server.store.put(PATH, lease(holder))
    server.store.put(PATH, lease("me-7f9_0a1b", name="another-lease"))
    assert not leading.active
    follow(leading)
    assert leading.active is active


def test_a_lease_changes_hands(
    server: ApiServer, leading: Leadership, caplog: pytest.LogCaptureFixture
) -> None:
    server.store.put(PATH, lease("other_1"))
    with caplog.at_level("INFO"):
        follow(leading)
        server.store.put(PATH, lease("me-7f9_1"))
        eventually(lambda: leading.active)
        # Renewed every few seconds, without news.
        server.store.put(PATH, lease("me-7f9_1"))
        server.store.put(PATH, lease("other_2"))
        # It is notified afterwards.
        eventually(lambda: len(caplog.records) == 2)
    assert not leading.active
    assert [record.getMessage() for record in caplog.records] == [
        "this extender is active now; the Lease is held by 'me-7f9_1'",
        "this extender is a standby now; the Lease is held by 'other_2'",
    ]


class TestALostWatch:
    """Without events of the Lease an extender cannot know its holder."""

    @pytest.fixture(autouse=True)
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> Clock:
        """The clock of the watch's silence: it moves on command only."""
        clock = Clock()
        monkeypatch.setattr(reflector_module, "time", SimpleNamespace(monotonic=clock))
        return clock

    @staticmethod
    def lose(server: ApiServer) -> Placed:
        server.wait_for_watches(1)
        refusal = server.faults.place(Refuse(503), watches(LEASES), times=None)
        server.faults.place(End())
        server.wait_for_watches(0)
        return refusal

    @pytest.mark.parametrize("how", ["the connection ends", "it hangs", "the Lease is not renewed"])
    def test_an_extender_is_active_no_longer_than_the_lease_lasts(
        self, server: ApiServer, leading: Leadership, clock: Clock, caplog: pytest.LogCaptureFixture, how: str
    ) -> None:
        server.store.put(PATH, lease("me-7f9_1"))
        follow(leading)
        for second in range(2):
            clock.now += 10
            server.store.put(PATH, lease("me-7f9_1", renewTime=f"2026-11-21T00:00:0{second}.000000Z"))
            eventually(lambda: leading.reflectors[0].health().silent_s == 0)
        assert leading.active
        if how == "the connection ends":
            self.lose(server)
        elif how == "it hangs":
            server.faults.place(Mute())
        clock.now += 14
        assert leading.active
        clock.now += 2
        assert not leading.active
        assert leading.reflectors[0].health().silent_s == 16
        said = [line for line in caplog.messages if "nothing was heard of the Lease for" in line]
        assert len(said) == 1

    def test_an_extender_that_still_leads_is_active_again(
        self, server: ApiServer, leading: Leadership, clock: Clock
    ) -> None:
        turns: list[tuple[bool, bool]] = []
        leading._changed = lambda now: turns.append((now, leading.active))
        server.store.put(PATH, lease("me-7f9_1"))
        follow(leading)
        refusal = self.lose(server)
        clock.now += 16
        assert not leading.active
        server.store.put(PATH, lease("me-7f9_1", renewTime="2026-11-21T00:00:02.000000Z"))
        assert not leading.active
        refusal.lift()
        eventually(lambda: leading.active)
        # As at any change of the holder: notified before it is visible, so that pods are listed again before
        # the first bind.
        assert turns == [(True, False), (False, False), (True, False)]
