"""Undocumented parts of asyncio that the server uses: a release that changes them fails here first."""

from __future__ import annotations

import asyncio
import inspect
from asyncio import selector_events
from asyncio.sslproto import SSLProtocol

import pytest


def test_signatures_are_those_that_are_called_and_overridden() -> None:
    names = list(inspect.signature(SSLProtocol.__init__).parameters)
    assert names[:6] == ["self", "loop", "app_protocol", "sslcontext", "waiter", "server_side"]
    assert {"ssl_handshake_timeout", "ssl_shutdown_timeout"} < set(names)
    assert list(inspect.signature(SSLProtocol._on_handshake_complete).parameters) == ["self", "handshake_exc"]
    for name in ("_process_outgoing", "_get_app_transport", "buffer_updated"):
        assert callable(getattr(SSLProtocol, name))


def test_the_buffers_of_a_connection_have_the_size_of_an_attribute() -> None:
    assert "self._sock.recv(self.max_size)" in inspect.getsource(selector_events)
    source = inspect.getsource(SSLProtocol.__init__)
    assert "self._ssl_buffer = bytearray(self.max_size)" in source
    assert "self._outgoing = ssl.MemoryBIO()" in source


def test_a_reader_goes_on_after_an_exception_that_is_taken_back() -> None:
    async def read() -> bytes:
        reader = asyncio.StreamReader()
        reader.set_exception(BlockingIOError())
        reader.feed_data(b"x")
        with pytest.raises(BlockingIOError):
            await reader.read(1)
        reader.set_exception(None)  # type: ignore[arg-type]
        return await reader.read(1)

    assert asyncio.run(read()) == b"x"


def test_a_reader_keeps_what_is_not_read_in_an_attribute() -> None:
    async def unread(*received: bytes) -> bool:
        reader = asyncio.StreamReader()
        for each in received:
            reader.feed_data(each)
        await reader.read(1)
        return bool(reader._buffer)  # type: ignore[attr-defined]

    assert asyncio.run(unread(b"xy"))
    assert not asyncio.run(unread(b"x"))
