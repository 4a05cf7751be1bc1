"""Listening sockets: their addresses, their errors, and the end of listening."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from scheduler_ext.server.http.listeners import ListenError, leave, listen, url


@pytest.mark.parametrize(
    ("host", "shown"),
    [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("[::1]", "[::1]"), ("localhost", None), ("", None)],
)
def test_the_url_of_a_listener_has_its_real_port(host: str, shown: str | None) -> None:
    with listen("the API", (host, 0)) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert url(listener).rpartition(":")[2] == str(listener.getsockname()[1]) != "0"
        if shown is not None:
            assert url(listener).startswith(f"http://{shown}:")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        pytest.param(
            ("192.0.2.1", 0), "192.0.2.1:0 for health: Cannot assign", id="an address of another host"
        ),
        pytest.param(
            ("127.0.0.1", 70_000),
            "127.0.0.1:70000 for health: a port is",
            id="a port out of range",
        ),
        pytest.param(("::zz", 0), r"\[::zz\]:0 for health", id="a host that is not an address"),
    ],
)
def test_the_error_names_the_listener_that_cannot_be_bound(address: tuple[str, int], message: str) -> None:
    with pytest.raises(ListenError, match=message):
        listen("health", address)


class Accepter:
    """Accepts and greets, and pauses without connections: the moment in which a close would lose one."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener

    def __call__(self) -> bool:
        try:
            sock, _ = self.listener.accept()
        except BlockingIOError:
            time.sleep(0.003)
            return False
        with sock:
            sock.sendall(b"hello")
        return True


def test_leave_resets_no_connection_that_was_established() -> None:
    losses: list[str] = []

    def connect_again_and_again(address: tuple[str, int]) -> None:
        while True:
            try:
                sock = socket.create_connection(address, timeout=60)
            except ConnectionRefusedError:
                return
            with sock:
                try:
                    greeting = sock.recv(100)
                except ConnectionResetError:
                    greeting = b""
                if greeting != b"hello":
                    losses.append("established, but not greeted")
                    return

    listener = listen("the API", ("127.0.0.1", 0))
    address = listener.getsockname()
    clients = [threading.Thread(target=connect_again_and_again, args=(address,)) for _ in range(8)]
    for client in clients:
        client.start()
    accept = Accepter(listener)
    for _ in range(50):
        accept()
    asyncio.run(leave(listener, accept))
    for client in clients:
        client.join()
    assert losses == []
