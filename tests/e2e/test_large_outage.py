"""After an outage of the API server, an extender of a large cluster is correct again.

No control plane here: the server is the tests' own, because it must answer at the moment of its return.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.live import LiveInventory
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import BindSection, Configuration
from tests.cluster.large import large, large_outage
from tests.cluster.large.large_outage import LargeOutage
from tests.e2e.cluster.api import eventually

pytestmark = pytest.mark.release

NODES, PODS = 2000, 20_000
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
    eventually(lambda: built.live.snapshot, "there is a snapshot", 60.0)
    eventually(lambda: all(watch.connected for watch in built.live.status().watches), "it watches", 60.0)
    yield built
    built.live.stop()
    transport.close()


def test_the_extender_is_right_after_an_outage(server: LargeOutage, following: Following) -> None:
    """Its watches may not continue, and the server answers with errors at first."""
    watched = {watch.name for watch in following.live.status().watches}
    server.leave(compact=True)
    eventually(lambda: not any(following.right()[name] for name in watched), "every watch has ended")
    assert not any(following.right()[kind] for kind in ("nodes", "gpunodes", "pods"))
    server.come_back(3.0)
    eventually(lambda: all(following.right().values()), "it knows every change", 60.0)
