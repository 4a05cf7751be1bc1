"""`serve --kubeconfig` as a process: ready after the lists, and still serving after an outage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.api.api_faults import Hang
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import lists
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import gpu, gpu_node, names_body, node, pod
from tests.server.process.product import ONE_GPU, WHOLE, Product, filtered
from tests.server.process.server_process import ServerProcess, eventually, get

pytestmark = pytest.mark.process

BODY = names_body(ONE_GPU, ["a", "b"])
_FREE_PORT = "127.0.0.1:0"


class Following(Product):
    """The product on a cluster in place of a file."""

    def __init__(self, kubeconfig: Path) -> None:
        ports = ("--listen", _FREE_PORT, "--health-listen", _FREE_PORT, "--inspect-listen", _FREE_PORT)
        config = str(Path(__file__).with_name("patient.json"))
        ServerProcess.__init__(self, "--kubeconfig", str(kubeconfig), "--config", config, *ports)

    def ready_code(self) -> int:
        return get(self.health, "/readyz").status

    def says(self) -> str:
        return get(self.health, "/readyz?verbose").body.decode()

    def fitting(self) -> list[str]:
        return filtered(self.post("filter", BODY))[0]


@pytest.fixture
def cluster() -> Iterator[ApiServer]:
    with ApiServer() as server:
        for name in "ab":
            server.store.put(NODES, node(name, {WHOLE: "1"}))
            server.store.put(GPU_NODES, gpu_node(name, [gpu(0)], sequence=5))
        yield server


def test_from_the_first_list_to_a_lost_watch(cluster: ApiServer, tmp_path: Path) -> None:
    """One process, because starting it takes longer than all its requests here."""
    hanging = cluster.faults.place(Hang(), lists(PODS), times=None)
    with Following(cluster.kubeconfig(tmp_path / "kubeconfig")) as product:
        product.ready()
        cluster.wait_for_watches(3)

        # Pods are not listed yet: free amounts are unknown.
        assert (product.ready_code(), product.post("filter", BODY).status) == (503, 503)
        assert get(product.health, "/livez").status == 200
        assert "[-]watch-pods failed" in product.says()
        hanging.lift()
        eventually(lambda: product.ready_code() == 200)
        cluster.wait_for_watches(4)
        assert product.fitting() == ["a", "b"]

        # A change arrives by itself, long before a watch ends.
        cluster.store.put(PODS, pod("p", {WHOLE: "1"}, on="a"))
        eventually(lambda: product.fitting() == ["b"])

        # A contradictory report is counted, and changes nothing.
        cluster.store.put(GPU_NODES, gpu_node("b", [gpu(0)], sequence=4))
        refused = 'gpu_extender_reports_refused_total{node="b"}'
        eventually(lambda: product.samples().get(refused) == 1)
        assert product.fitting() == ["b"]
        samples = product.samples()
        assert samples['gpu_extender_watch_connected{resource="pods"}'] == 1
        assert samples['gpu_extender_inventory_nodes{state="Fresh"}'] == 2
        assert samples["gpu_extender_active"] == 1
        assert samples["gpu_extender_nudges_total"] == 1

        # Without an API server it continues to serve, and reports it.
        cluster.stop()
        eventually(lambda: product.says().count("the last state stays in force") == 4)
        assert product.ready_code() == 200
        assert "[+]watch-nodes lost for " in product.says()
        assert product.fitting() == ["b"]
        eventually(lambda: product.samples()['gpu_extender_watch_connected{resource="pods"}'] == 0)
        restarts = 'gpu_extender_watch_restarts_total{reason="unreachable",resource="pods"}'
        assert product.samples()[restarts] >= 1

        # And it continues at the end of the last watch.
        cluster.store.delete(PODS, "p", "default")
        cluster.start()
        eventually(lambda: product.fitting() == ["a", "b"])
        product.process.terminate()
        assert product.wait() == 0
    assert cluster.log.count(lists(NODES)) == 1
