"""Overrides of asyncio and gunicorn that would silently have no effect after a renaming there.

Other changes of undocumented parts fail the tests of the server itself."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from gunicorn.arbiter import Arbiter

from scheduler_ext.server.http.tls import TlsProtocol
from scheduler_ext.server.worker import SingleWorkerArbiter


def test_a_tls_connection_has_small_buffers() -> None:
    async def buffer() -> int:
        loop, context = asyncio.get_running_loop(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        protocol = TlsProtocol(loop, asyncio.Protocol(), context)
        protocol._get_app_transport().close()
        return len(protocol.get_buffer(-1))

    assert asyncio.run(buffer()) == 32 * 1024


@pytest.mark.parametrize("name", [name for name in vars(SingleWorkerArbiter) if name.startswith("handle_")])
def test_a_signal_for_more_workers_or_a_reload_is_ignored(name: str) -> None:
    assert hasattr(Arbiter, name)
