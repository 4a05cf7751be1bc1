"""CONTRIBUTING's "Life of a request" agrees with the calls of real requests."""

from __future__ import annotations

import ast
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_COROUTINE, CO_GENERATOR
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any

import pytest

from scheduler_ext.agent.gpu_health import Health
from scheduler_ext.agent.loop import run_agent
from scheduler_ext.agent.observer import Observer
from scheduler_ext.agent.reporter import Reporter
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.server.app import api_app
from scheduler_ext.server.metrics.registry import Metrics
from scheduler_ext.wire.config import Configuration
from tests.agent.nvml_mock.fixtures import Rig, fake_library, rig
from tests.agent.nvml_mock.presets import t4
from tests.cluster.api.api_paths import GPU_NODES, NODES
from tests.cluster.api.api_server import ApiServer
from tests.cluster.enforced import HALF, Enforced
from tests.cluster.following import eventually
from tests.cluster.living import SICK
from tests.extender.preempting import preempt_body, uids
from tests.kube_objects import SHARE, gpu, gpu_node, names_body, node, pod
from tests.server.http.in_process import serving
from tests.server.process.server_process import call, connect, request

__all__ = ["fake_library", "rig"]

ROOT = Path(__file__).parents[1]
PRODUCT = ROOT / "scheduler_ext"

Call = tuple[str, str]
"""A file in scheduler_ext, and a function in it."""


def _tables() -> dict[str, list[Call]]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.split("## Life of a request")[1].split("\n## ")[0]
    parts = re.split(r"^### (.+)$", section, flags=re.M)[1:]
    return {
        title: re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", body, flags=re.M)
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


TABLES = _tables()


def test_every_kind_of_request_has_its_table() -> None:
    assert list(TABLES) == ["filter", "prioritize", "bind", "preempt", "An agent's report", "A watch event"]
    assert all(len(rows) > 4 for rows in TABLES.values())


@pytest.mark.parametrize("title", TABLES)
def test_every_function_of_a_table_exists(title: str) -> None:
    for file, function in TABLES[title]:
        path = PRODUCT / file
        assert path.is_file(), f"CONTRIBUTING names {file}, which does not exist"
        assert function in _functions(path), f"CONTRIBUTING names {function}, which is not in {file}"


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {each.name for each in tree.body if isinstance(each, kinds)}
    for each in tree.body:
        if isinstance(each, ast.ClassDef):
            found |= {f"{each.name}.{item.name}" for item in each.body if isinstance(item, kinds)}
    return found


@contextmanager
def calls() -> Iterator[list[Call]]:
    """The product's function calls in all threads that exist or start meanwhile, in order."""
    found: list[Call] = []
    begun: set[FrameType] = set()
    prefix = f"{PRODUCT}/"

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(prefix):
            return
        if code.co_flags & (CO_GENERATOR | CO_COROUTINE):
            # Each step of a generator or coroutine is an event: only the first one is its call.
            if frame in begun:
                return
            begun.add(frame)
        found.append((code.co_filename.removeprefix(prefix), code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def assert_followed(title: str, found: list[Call]) -> None:
    """The rows of a table occur among the calls, in their order."""
    rest = iter(found)
    for row in TABLES[title]:
        assert row in rest, f"{title}: {row[1]} of {row[0]} is not called, or not after the rows above it"


POINTS = ("core/cycle/cycle.py", "points")


class Asking:
    """kube-scheduler's requests to an extender that follows a cluster and binds."""

    def __init__(self, extender: Enforced) -> None:
        self.extender = extender
        live, config = extender.live, Configuration()
        self._app = api_app(extender.extender, live.binder, Metrics(live, config), 1 << 20, 60.0)

    def post(self, verb: str, body: bytes) -> Any:
        # The server is started here, so that its threads are followed from their start.
        with serving(self._app) as address, connect(address) as sock:
            reply = call(sock, request(f"/{verb}", body, "Content-Type: application/json"))
        assert reply.status == 200
        return reply.json()


@pytest.fixture
def asking(server: ApiServer, transport: Transport) -> Iterator[Asking]:
    built = Enforced(server, transport)
    built.start()
    yield Asking(built)
    built.live.stop()


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running


@pytest.fixture
def transport(server: ApiServer, tmp_path: Path) -> Iterator[Transport]:
    built = Transport.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"))
    yield built
    built.close()


def _filter(asking: Asking) -> None:
    body = names_body(asking.extender.share("one"), ["a", "b"])
    with calls() as found:
        assert asking.post("filter", body)["NodeNames"] == ["a", "b"]
    assert_followed("filter", found)


def _prioritize(asking: Asking) -> None:
    body = names_body(asking.extender.share("one"), ["a", "b"])
    asking.post("filter", body)
    with calls() as found:
        assert len(asking.post("prioritize", body)) == 2
    assert_followed("prioritize", found)


def _bind(asking: Asking) -> None:
    asking.extender.share("one")
    body = {"PodName": "one", "PodNamespace": "default", "PodUID": "uid-one", "Node": "a"}
    with calls() as found:
        assert asking.post("bind", json.dumps(body).encode())["Error"] == ""
    assert_followed("bind", found)


def _preempt(asking: Asking) -> None:
    for name in ("one", "two", "three", "four"):
        asking.extender.share(name)
        assert asking.extender.bind(name, "a") == ""
    urgent = pod("urgent", {SHARE: str(HALF)}, priority=1000, schedulerName="gpu-scheduler")
    body = preempt_body(urgent, {"a": uids("one", "two", "three", "four")})
    with calls() as found:
        assert list(asking.post("preempt", body)["NodeNameToMetaVictims"]) == ["a"]
    assert_followed("preempt", found)


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(_filter, id="filter"),
        pytest.param(_prioritize, id="prioritize"),
        pytest.param(_bind, id="bind"),
        pytest.param(_preempt, id="preempt"),
    ],
)
def test_a_request_of_kube_scheduler(asking: Asking, request_of: Callable[[Asking], None]) -> None:
    request_of(asking)


def test_filter_scores_the_nodes_if_more_fit_than_it_returns(server: ApiServer, transport: Transport) -> None:
    extender = Enforced(server, transport, max_candidates=1)
    extender.start()
    asking = Asking(extender)
    share = extender.share("one")
    scores = ("core/cycle/cycle.py", "score_nodes")
    with calls() as found:
        (best,) = asking.post("filter", names_body(share, ["a", "b"]))["NodeNames"]
    select = ("core/cycle/cycle.py", "select_candidates")
    assert_followed("filter", found)
    assert scores in found[found.index(select) :]
    with calls() as found:
        asking.post("prioritize", names_body(share, [best]))
    extender.live.stop()
    assert_followed("prioritize", [*found[: found.index(POINTS)], scores, *found[found.index(POINTS) :]])
    assert scores not in found


def _is_healthy(extender: Enforced, name: str) -> bool:
    snapshot = extender.live.snapshot
    assert snapshot is not None
    return all(slot.healthy for slot in snapshot.nodes[name].state.slots)


def test_a_watch_event(server: ApiServer, transport: Transport) -> None:
    extender = Enforced(server, transport)
    with calls() as found:
        # Threads are followed from their start.
        extender.start()
        server.store.put(GPU_NODES, gpu_node("a", [gpu(0, uuid="GPU-a0"), gpu(1, uuid="GPU-a1") | SICK]))
        eventually(lambda: not _is_healthy(extender, "a"))
    extender.live.stop()
    assert_followed("A watch event", found)


def test_an_agents_report(rig: Rig, server: ApiServer, transport: Transport, tmp_path: Path) -> None:
    rig.node.gpus = [t4()]
    rig.node.write()
    server.store.put(NODES, node("n", uid="uid-1"))
    stopped = Event()

    class Once(Reporter):
        """Ends the loop after the first report."""

        def offer(self, status: Any) -> bool:
            stopped.set()
            return super().offer(status)

    observer = Observer(rig.source, tmp_path / "kubelet.sock", Health())
    with calls() as found:
        assert run_agent(observer, Once(transport, "n", "boot-1"), 0.0, stopped) == 0
    assert_followed("An agent's report", found)
