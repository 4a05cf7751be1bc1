"""The end of a body is found wherever the network cuts it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.server.http.body import BODY_RECEIVED, BodyError, read_body, receive_body


def receive(raw: bytes, cuts: list[int], length: int | None = None) -> tuple[bytes, bytes]:
    """The body that begins these bytes, which arrive in pieces, and what follows it. Raises BodyError."""
    held = 0

    def hold(count: int) -> None:
        nonlocal held
        held += count

    async def run() -> tuple[bytes, bytes]:
        reader = asyncio.StreamReader()
        receiving = asyncio.create_task(receive_body(reader, length, 10_000, hold))
        edges = [0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]
        for start, end in itertools.pairwise(edges):
            reader.feed_data(raw[start:end])
            await asyncio.sleep(0)
        reader.feed_eof()
        body = await receiving
        assert held == len(body)
        return body, await reader.read()

    return asyncio.run(run())


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.lists(st.integers(0, 500)), st.binary())
def test_chunks_are_joined_however_they_are_cut(chunks: list[bytes], cuts: list[int], after: bytes) -> None:
    raw = b"".join(b"%X;name=value\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    raw += b"0\r\nTrailer: x\r\n\r\n"
    assert receive(raw + after, cuts) == (b"".join(chunks), after)


@given(st.binary(max_size=200), st.lists(st.integers(0, 500)), st.binary())
def test_a_body_of_known_length_ends_there(body: bytes, cuts: list[int], after: bytes) -> None:
    assert receive(body + after, cuts, len(body)) == (body, after)


@given(st.binary(max_size=300), st.lists(st.integers(0, 500)))
def test_any_bytes_are_a_body_or_malformed_or_unfinished(raw: bytes, cuts: list[int]) -> None:
    with contextlib.suppress(BodyError):
        body, after = receive(raw, cuts)
        assert len(body) + len(after) < len(raw)


def test_read_body_works_under_another_server_too() -> None:
    environ: dict[str, object] = {"wsgi.input": io.BytesIO(b"abc"), "CONTENT_LENGTH": "3"}
    for _ in range(2):
        assert read_body(environ, 3) == b"abc"
        assert BODY_RECEIVED in environ
    with pytest.raises(BodyError, match="larger than 2 bytes"):
        read_body(environ, 2)
    assert read_body({"wsgi.input": io.BytesIO(b"abc")}, 3) == b""
