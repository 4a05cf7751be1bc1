"""The server uses parts of asyncio and ssl that are not documented; a release that changes them fails here."""

from __future__ import annotations

import asyncio
import inspect
import ssl
from asyncio.sslproto import SSLProtocol

import pytest

from scheduler_ext.server.http.tls import TlsProtocol


def test_signatures_are_those_that_are_called_and_overridden() -> None:
    names = list(inspect.signature(SSLProtocol.__init__).parameters)
    assert names[:6] == ["self", "loop", "app_protocol", "sslcontext", "waiter", "server_side"]
    assert {"ssl_handshake_timeout", "ssl_shutdown_timeout"} < set(names)
    assert list(inspect.signature(SSLProtocol._on_handshake_complete).parameters) == ["self", "handshake_exc"]
    for name in ("_process_outgoing", "_get_app_transport", "buffer_updated"):
        assert callable(getattr(SSLProtocol, name))


def test_the_buffer_of_a_connection_is_as_small_as_asked_for() -> None:
    async def buffer_bytes() -> int:
        loop = asyncio.get_running_loop()
        protocol = TlsProtocol(loop, asyncio.Protocol(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        assert isinstance(protocol._outgoing, ssl.MemoryBIO)
        return len(protocol.get_buffer(-1))

    assert asyncio.run(buffer_bytes()) == 32 * 1024


def test_a_reader_goes_on_after_an_exception_that_is_taken_back() -> None:
    async def read() -> bytes:
        reader = asyncio.StreamReader()
        reader.set_exception(ValueError())
        reader.feed_data(b"x")
        with pytest.raises(ValueError):
            await reader.read(1)
        reader.set_exception(None)  # type: ignore[arg-type]
        return await reader.read(1)

    assert asyncio.run(read()) == b"x"
