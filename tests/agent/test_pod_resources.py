"""kubelet's PodResources API through a real gRPC server: absent, busy, restarting, silent, wrong."""

from __future__ import annotations

import logging
import socket as sockets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest

from scheduler_ext.agent.pod_resources import MAX_ANSWER_BYTES, Allocation, PodResources
from tests.agent.fake_kubelet import FakeKubelet, devices, pod

GPU = "nvidia.com/gpu"
TRAIN = Allocation("ml", "train", "main", GPU, ("GPU-a", "GPU-b"))
MANY = tuple(f"GPU-{n}" for n in range(8))
BUSY = (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")


class Node:
    """A kubelet with one pod, and the agent's side of its socket; seconds pass only on request."""

    def __init__(self, directory: Path) -> None:
        self.now = 1000.0
        self.kubelet = FakeKubelet(directory / "kubelet.sock")
        self.kubelet.pods = [pod("train", *devices(GPU, "GPU-b", "GPU-a"))]
        self.kubelet.offered = devices(GPU, "GPU-b", "GPU-a")
        self.client = PodResources(self.kubelet.socket, clock=lambda: self.now, deadline_s=60)


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Node]:
    built = Node(tmp_path)
    yield built
    built.kubelet.stop()


@pytest.fixture
def node(idle: Node) -> Node:
    idle.kubelet.start()
    return idle


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def said(log: pytest.LogCaptureFixture) -> list[str]:
    """The level of each line so far; they are forgotten then."""
    levels = [record.levelname for record in log.records]
    log.clear()
    return levels


@contextmanager
def serving(path: Path, serve: Callable[[sockets.socket], object]) -> Iterator[None]:
    """Something else on the socket, to which each connection is given."""
    with sockets.socket(sockets.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    serve(listener.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(sockets.SHUT_RDWR)
            thread.join()


def test_holdings_of_containers_are_sorted(node: Node) -> None:
    node.kubelet.pods = [
        pod("train", *devices(GPU, "GPU-b", "GPU-a"), *devices("nvidia.com/mig-1g.10gb", "MIG-1")),
        pod("train", *devices(GPU, *reversed(MANY)), namespace="dev", container="side"),
    ]
    told = node.client.read()
    assert told == (
        Allocation("dev", "train", "side", GPU, MANY),
        TRAIN,
        Allocation("ml", "train", "main", "nvidia.com/mig-1g.10gb", ("MIG-1",)),
    )
    node.kubelet.pods.reverse()
    assert node.client.read() == told


def test_ids_of_another_plugin_which_could_be_indices_are_ignored(node: Node) -> None:
    node.kubelet.pods = [pod("other", *devices("example.com/nic", "0"))]
    assert node.client.read() == ()


def test_offered_devices_are_grouped_by_resource(node: Node) -> None:
    node.kubelet.offered = [*devices("nvidia.com/gpu.shared", "G::1", "G::0"), *devices("x.io/y", "0")]
    assert node.client.allocatable() == {"nvidia.com/gpu.shared": ("G::0", "G::1")}


def test_a_missing_socket_is_said_once_and_taken_up_when_it_appears(
    idle: Node, log: pytest.LogCaptureFixture
) -> None:
    assert [idle.client.read(), idle.client.allocatable(), idle.client.read()] == [None] * 3
    assert "kubelet.sock: cannot be opened: No such file" in log.text
    assert said(log) == ["WARNING"]
    idle.kubelet.start()
    assert idle.client.read() == (TRAIN,)
    assert said(log) == ["INFO"]
    assert idle.client.allocatable() == {GPU: ("GPU-a", "GPU-b")}
    assert said(log) == []


def test_a_restart_is_survived_at_once(node: Node, log: pytest.LogCaptureFixture) -> None:
    assert node.client.read() == (TRAIN,)
    node.kubelet.stop()
    # Long enough for a connection that waits longer after each failure to wait for good.
    for _ in range(20):
        assert node.client.read() == (TRAIN,)
    assert said(log) == ["WARNING"]
    node.kubelet.pods = [pod("new", *devices(GPU, "GPU-a"))]
    node.kubelet.start()
    assert node.client.read() == (Allocation("ml", "new", "main", GPU, ("GPU-a",)),)
    assert said(log) == ["INFO"]


def test_a_socket_with_broken_calls_is_tried_again_each_time(
    idle: Node, log: pytest.LogCaptureFixture
) -> None:
    taken = 0

    def hang_up(connection: sockets.socket) -> None:
        nonlocal taken
        connection.close()
        taken += 1

    with serving(idle.kubelet.socket, hang_up):
        assert [idle.client.read() for _ in range(5)] == [None] * 5
    assert taken >= 5
    assert said(log) == ["WARNING"]


def test_another_kubelet_on_the_path_is_asked_though_the_old_one_lives(node: Node) -> None:
    assert node.client.read() == (TRAIN,)
    newer = FakeKubelet(node.kubelet.socket)
    newer.start()
    try:
        assert node.client.read() == ()
    finally:
        newer.stop()


def test_an_answer_serves_for_a_minute_and_no_longer(node: Node) -> None:
    assert node.client.read() == (TRAIN,)
    node.kubelet.stop()
    node.now += 59
    assert node.client.read() == (TRAIN,)
    node.now += 2
    assert node.client.read() is None
    # An answer that never came is unknown, whatever other answers came.
    assert node.client.allocatable() is None


def test_a_busy_kubelet_is_left_alone_for_longer_each_time(node: Node, log: pytest.LogCaptureFixture) -> None:
    assert node.client.read() == (TRAIN,)
    node.kubelet.failure = BUSY
    node.kubelet.calls.clear()
    asked = []
    for _ in range(130):
        node.client.read()
        asked.append(len(node.kubelet.calls))
        node.now += 1
    seconds = [now for now in range(1, 130) if asked[now] > asked[now - 1]]
    assert (asked[0], seconds) == (1, [1, 3, 7, 15, 31, 61, 91, 121])
    assert node.client.read() is None
    assert "too many requests, or too large an answer (rejected by rate limit)" in log.text
    assert said(log) == ["WARNING"]
    node.kubelet.failure = None
    node.now += 30
    assert node.client.read() == (TRAIN,)
    assert said(log) == ["INFO"]
    # Once it has answered, waits are short again.
    node.kubelet.failure = BUSY
    node.client.read()
    node.kubelet.failure = None
    node.kubelet.pods = []
    node.now += 1
    assert node.client.read() == ()


def test_a_silent_kubelet_delays_no_call_beyond_the_deadline(
    node: Node, log: pytest.LogCaptureFixture
) -> None:
    node.kubelet.hang()
    hasty = PodResources(node.kubelet.socket, clock=lambda: node.now, deadline_s=0.05)
    assert hasty.read() is None
    assert "List: fails with DEADLINE_EXCEEDED" in log.text
    node.kubelet.release()
    # A slow machine may take longer than that once or twice.
    assert any(hasty.read() == (TRAIN,) for _ in range(100))


def test_a_method_that_is_not_offered_spoils_no_other(node: Node, log: pytest.LogCaptureFixture) -> None:
    node.kubelet.missing = {"GetAllocatableResources"}
    for _ in range(3):
        assert node.client.allocatable() is None
        assert node.client.read() == (TRAIN,)
    assert "GetAllocatableResources: not offered here" in log.text
    assert said(log) == ["WARNING"]


def test_nonsense_is_not_known_and_said_once(node: Node, log: pytest.LogCaptureFixture) -> None:
    assert node.client.read() == (TRAIN,)
    # A message cut short.
    node.kubelet.raw = b"\x0a\x05abc"
    assert [node.client.read(), node.client.read()] == [None, None]
    assert "List: its answer cannot be decoded" in log.text
    assert said(log) == ["WARNING"]
    node.kubelet.raw = None
    assert node.client.read() == (TRAIN,)
    assert said(log) == ["INFO"]


def test_an_answer_beyond_grpcs_own_limit_is_read(node: Node) -> None:
    node.kubelet.pods = [pod("train", *devices(GPU, "GPU-b", "GPU-a"), *devices("x.io/y", "x" * 5 * 2**20))]
    assert node.client.read() == (TRAIN,)


def test_an_answer_without_end_is_refused(node: Node, log: pytest.LogCaptureFixture) -> None:
    assert node.client.read() == (TRAIN,)
    node.kubelet.raw = bytes(MAX_ANSWER_BYTES + 1)
    assert node.client.read() == (TRAIN,)
    assert "Received message larger than max" in log.text


def test_one_question_that_is_refused_is_no_reason_to_spare_it_less_or_another_more(node: Node) -> None:
    node.kubelet.refused = {"List"}
    asked = []
    for second in range(0, 100, 5):
        assert node.client.allocatable() == {GPU: ("GPU-a", "GPU-b")}
        before = node.kubelet.calls.count("List")
        node.client.read()
        if node.kubelet.calls.count("List") > before:
            asked.append(second)
        node.now += 5
    assert asked == [0, 5, 10, 15, 25, 45, 75]


def test_plugins_that_register_again_still_offer_the_same_resources(node: Node) -> None:
    offered = {GPU: ("GPU-a", "GPU-b")}
    assert node.client.allocatable() == offered
    node.kubelet.stop()
    node.now += 100
    assert node.client.allocatable() == offered
    node.kubelet.offered = []
    node.kubelet.start()
    node.now += 499
    assert node.client.allocatable() == offered
    # After so long there is no plugin.
    node.now += 1
    assert node.client.allocatable() == {}
    node.kubelet.offered = devices("nvidia.com/mig-1g.10gb", "MIG-1")
    assert node.client.allocatable() == {"nvidia.com/mig-1g.10gb": ("MIG-1",)}


def test_a_proxy_of_the_environment_is_not_asked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert node.client.read() == (TRAIN,)


def test_the_authority_is_one_that_kubelets_server_takes(idle: Node) -> None:
    """A socket that answers with HTTP/2's settings, and is sent the headers then."""
    heard = b""

    def listen(connection: sockets.socket) -> None:
        nonlocal heard
        with connection:
            connection.settimeout(60)
            connection.sendall(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
            while b"user-agent" not in heard and (received := connection.recv(65536)):
                heard += received

    with serving(idle.kubelet.socket, listen):
        assert idle.client.read() is None
    assert b":authority\x09localhost" in heard
