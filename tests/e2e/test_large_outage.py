"""After an outage of the API server, an extender of a large cluster is correct again.

No control plane here: the server is the tests' own, because it must answer at the moment of its return.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.live import LiveInventory
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import BindSection, Configuration
from tests.cluster.large import large, large_outage
from tests.cluster.large.large_outage import LargeOutage

pytestmark = pytest.mark.release

NODES, PODS = 2000, 20_000
AWAY_S = 10.0
FREED = f"train-{large_outage.FREED:06d}"


@pytest.fixture
def server() -> Iterator[LargeOutage]:
    with large_outage.running(NODES, PODS) as running:
        yield running


class Following:
    """An extender that follows it, with every possible watch."""

    def __init__(self, transport: Transport) -> None:
        config = Configuration(bind=BindSection(enabled=True))
        self.extender = Extender(config)
        self.live = LiveInventory(transport, self.extender, config)
        (self._freed_node, _) = large.placement(PODS, NODES)[large_outage.FREED]

    def right(self) -> dict[str, bool]:
        """Whether it knows the change, for each watched kind."""
        snapshot = self.live.snapshot
        assert snapshot is not None
        nodes = {name: node.info for name, node in snapshot.nodes.items()}
        allocatable = nodes[large_outage.RESIZED].allocatable
        report = nodes[large_outage.SICK].report
        assert allocatable is not None
        assert report is not None
        freed = nodes[large.node_name(self._freed_node)]
        watches = {watch.name: watch.connected for watch in self.live.status().watches}
        return watches | {
            "nodes": allocatable.get("nvidia.com/gpu") == 3,
            "gpunodes": not report.devices[0].healthy,
            "pods": not any(pod.holds and pod.name.startswith(f"{FREED}-") for pod in freed.pods),
            "poddisruptionbudgets": bool(self.extender.preemptor.budgets()),
        }


@pytest.fixture
def following(server: LargeOutage) -> Iterator[Following]:
    transport = Transport.from_kubeconfig(server.kubeconfig)
    built = Following(transport)
    built.live.start()
    within(60.0, lambda: built.live.snapshot is not None)
    within(60.0, lambda: all(watch.connected for watch in built.live.status().watches))
    yield built
    built.live.stop()
    transport.close()


def within(limit_s: float, condition: Callable[[], bool]) -> float:
    """The seconds until it holds."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() < started + limit_s
        time.sleep(0.02)
    return time.monotonic() - started


@pytest.mark.parametrize("compact", [False, True], ids=["from where it was", "everything listed again"])
@pytest.mark.parametrize("errors_s", [0.0, 3.0], ids=["answers at once", "errors at first"])
def test_the_extender_is_right_soon_after_an_outage(
    server: LargeOutage, following: Following, compact: bool, errors_s: float
) -> None:
    server.leave(compact=compact)
    time.sleep(AWAY_S)
    assert not any(following.right()[kind] for kind in ("nodes", "gpunodes", "pods"))
    server.come_back(errors_s)
    back_at = time.monotonic()
    found: dict[str, float] = {}
    while missing := [kind for kind, right in following.right().items() if not right]:
        for kind in following.right().keys() - set(missing) - found.keys():
            found[kind] = time.monotonic() - back_at
        assert time.monotonic() < back_at + 60, f"not right: {missing}; right after {found}"
        time.sleep(0.02)
    for kind in following.right().keys() - found.keys():
        found[kind] = time.monotonic() - back_at
    print(f"right after { ({kind: round(seconds, 1) for kind, seconds in sorted(found.items())}) } s")
