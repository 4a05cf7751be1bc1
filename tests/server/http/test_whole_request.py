"""A request that arrives in one read is the one that the streams would give, byte by byte."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gunicorn.config import Config
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler_ext.server.http.body import BodyError, receive_body
from scheduler_ext.server.http.exchange import HeadError, parse_head, read_head, whole_request

PEER = ("127.0.0.1", 1)
CONFIG = Config()
LENGTHS = (b"Content-Length: 3", b"Content-Length: 03", b"content-length:2 ", b"Transfer-Encoding: chunked")
OTHER_LINES = (
    b"Host: a",
    b"Host:",
    b"A: b\n",
    b"B",
    b"Expect: 100-continue",
    b"Connection: close",
    b"",
    b"C: \r",
)
LINES = st.sampled_from(LENGTHS + OTHER_LINES)
BODIES = st.sampled_from(
    [b"", b"abc", b"ab", b"\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]
)
START_LINES = st.sampled_from(
    [b"POST /filter HTTP/1.1", b"GET / HTTP/1.0", b"\r\nGET / HTTP/1.1", b"GET /\n", b""]
)


@st.composite
def received(draw: st.DrawFn) -> bytes:
    head = [draw(START_LINES), *draw(st.lists(LINES, max_size=3))]
    end = draw(st.sampled_from([b"\r\n\r\n", b"\r\n\r\n", b"\n\n", b"\r\n", b""]))
    return b"\r\n".join(head) + end + draw(BODIES)


def outline(request: Any, body: bytes) -> tuple[Any, ...]:
    return request.method, request.uri, request.version, request.headers, request.should_close(), body


def by_streams(data: bytes) -> tuple[Any, ...] | None:
    """The request that the streams give if it is alone in these bytes, has a known length, and does not wait
    for "100 Continue"; otherwise None."""

    async def receive() -> tuple[Any, ...] | None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        head = await read_head(reader)
        if not head:
            return None
        request, length, expects_continue = parse_head(head, PEER, CONFIG)
        body = await receive_body(reader, length, 1000, lambda count: None)
        rest = await reader.read()
        return None if rest or length is None or expects_continue else outline(request, body)

    try:
        return asyncio.run(receive())
    except (HeadError, BodyError):
        return None


@given(received())
@example(b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
@example(b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc")
@example(b"GET /a\nb HTTP/1.1\r\nHost: a\r\n\r\n")
def test_both_ways_find_the_same_request(data: bytes) -> None:
    expected = None if data.startswith(b"\r\n") else by_streams(data)
    found = whole_request(data, PEER, CONFIG)
    assert (None if found is None else outline(*found)) == expected


def test_a_head_above_its_limit_is_left_to_the_streams() -> None:
    lines = b"".join(b"A%d: %s\r\n" % (number, b"x" * 4000) for number in range(5))
    data = b"GET / HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n"
    assert whole_request(data, PEER, CONFIG) is None
    with pytest.raises(HeadError, match="larger"):
        asyncio.run(_head_of(data))


async def _head_of(data: bytes) -> bytes:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    return await read_head(reader)
