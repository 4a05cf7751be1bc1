"""why for a pod that was decided and deleted, asked of an extender that follows the cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.cli.test_live_commands import LEASE, OURS, WHOLE, World, extender_pod
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import Request
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, gpu, gpu_node, names_body, node, pod
from tests.server.process.server_process import eventually
from tests.server.process.test_serve_cluster import Following


def hook(request: Request) -> Answer | None:
    if request.path == OURS and "labelSelector" in request.query:
        return Answer(200, json.dumps({"items": [extender_pod("gpu-scheduler-a")]}).encode())
    if request.path == LEASE:
        return Answer(200, b'{"spec": {"holderIdentity": "gpu-scheduler-a_5d0f"}}')
    return None


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One node, and an extender that follows it."""
    kubeconfig = tmp_path_factory.mktemp("gone") / "kubeconfig"
    with ApiServer() as server:
        server.store.put(NODES, node("n", {WHOLE: "1"}))
        server.store.put(GPU_NODES, gpu_node("n", [gpu(0)]))
        with Following(server.kubeconfig(kubeconfig)) as product:
            product.ready()
            server.hook = hook
            server.ports["gpu-scheduler", "gpu-scheduler-a", 8890] = product.inspect
            eventually(lambda: product.ready_code() == 200)
            yield World(server, kubeconfig, product)


def delete(world: World, asking: Json) -> None:
    world.server.store.delete(PODS, asking["metadata"]["name"], "default")


def finish(world: World, asking: Json) -> None:
    world.server.store.put(PODS, asking | {"status": {"phase": "Failed"}})


def replace(world: World, asking: Json) -> None:
    delete(world, asking)
    recreated = pod(asking["metadata"]["name"], {})
    recreated["metadata"]["uid"] = "another"
    world.server.store.put(PODS, recreated)


@pytest.fixture(
    params=[delete, finish, replace],
    ids=["deleted", "finished", "created again without GPUs"],
    scope="module",
)
def gone(request: pytest.FixtureRequest, world: World) -> Iterator[World]:
    """A pod that is too large and one that fits were decided, and then deleted."""
    go: Callable[[World, Json], None] = request.param
    assert world.product is not None
    for name, amount, code in (("large", "9", 3), ("small", "1", 0)):
        asking = pod(name, {WHOLE: amount})
        asking["metadata"]["uid"] = f"uid-{name}-{go.__name__}"
        world.server.store.put(PODS, asking)
        assert world.product.post("filter", names_body(asking, ["n"])).status == 200
        eventually(partial(waits, world, name, code))
        go(world, asking)
        eventually(partial(is_gone, world, name))
    yield world
    for name in ("large", "small") if go is not delete else ():
        world.server.store.delete(PODS, name, "default")


def waits(world: World, name: str, code: int) -> bool:
    told = world.run("why", name, "-o", "json")
    return told[0] == code and json.loads(told[1])["gone"] is False


def is_gone(world: World, name: str) -> bool:
    return world.json("why", name)["gone"] is True


@pytest.mark.process
def test_the_answer_says_first_that_it_is_gone_and_then_the_decision(gone: World) -> None:
    code, out, err = gone.run("why", "large")
    note, asks, then, nearest, *_, last = out.splitlines()
    assert note.startswith(
        "Note: no pod default/large waits for GPUs or holds any now; the last decision about a pod of that "
        "name: uid uid-large-"
    )
    assert (asks, then) == ("Pod default/large asks nvidia.com/gpu=9", "If the pod were created again now:")
    assert nearest == "Fits nowhere: 1 Insufficient nvidia.com/gpu per device."
    assert re.match("Asked once at .* of 1 node 0 fitted", last)
    assert (code, err.count("\n")) == (1, 1)
    assert "pod default/large: there is no such pod that waits for GPUs or holds some; -n chooses" in err


def test_one_that_would_fit_is_not_said_to_wait(gone: World) -> None:
    code, out, _ = gone.run("why", "small")
    assert code == 1
    assert "If the pod were created again now:\nFits; best: n.\n" in out
    assert "It waits" not in out


def test_the_cluster_itself_says_the_same_of_it(gone: World) -> None:
    told = [gone.run("why", "large", "--from", source) for source in ("extender", "cluster")]
    assert [(code, err) for code, _, err in told] == [(told[0][0], told[0][2])] * 2


def test_a_departed_pod_has_no_node_name_to_print(gone: World) -> None:
    assert gone.run("why", "large", "-o", "name")[:2] == (1, "")
