"""The end of a body is found wherever the network cuts it."""

from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.server.http.body import (
    BODY_RECEIVED,
    BodyMalformed,
    BodyTooLarge,
    BodyTruncated,
    read_body,
)
from scheduler_ext.server.http.framing import BodyFraming, ChunkedFraming, LengthFraming


def feed(framing: BodyFraming, raw: bytes, cuts: list[int]) -> bytes:
    """Feed `raw` in pieces; what followed the body."""
    edges = [0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]
    surplus = b""
    for start, end in itertools.pairwise(edges):
        piece = raw[start:end]
        surplus += piece if framing.complete else framing.feed(piece)
    return surplus


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.lists(st.integers(0, 500)), st.binary())
def test_chunks_are_put_together_however_they_are_cut(
    chunks: list[bytes], cuts: list[int], after: bytes
) -> None:
    raw = b"".join(b"%X;name=value\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    framing = ChunkedFraming()
    assert feed(framing, raw + b"0\r\nTrailer: x\r\n\r\n" + after, cuts) == after
    assert framing.complete
    assert framing.size == len(b"".join(chunks))
    assert framing.take() == b"".join(chunks)


@given(st.binary(max_size=200), st.lists(st.integers(0, 500)), st.binary())
def test_a_body_of_known_length_ends_there(body: bytes, cuts: list[int], after: bytes) -> None:
    framing = LengthFraming(len(body))
    assert feed(framing, body + after, cuts) == after
    assert framing.complete
    assert framing.take() == body


@given(st.binary(max_size=300), st.lists(st.integers(0, 500)))
def test_any_bytes_are_a_body_or_malformed_or_unfinished(raw: bytes, cuts: list[int]) -> None:
    framing = ChunkedFraming()
    try:
        feed(framing, raw, cuts)
    except BodyMalformed:
        return
    assert framing.size <= len(raw)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"-1\r\n", id="a negative size"),
        pytest.param(b"0x1\r\n", id="a size with a prefix"),
        pytest.param(b"\r\n", id="no size"),
        pytest.param(b"1 1\r\n", id="two sizes"),
        pytest.param(b"1\r\nxx\r\n", id="more than announced"),
        pytest.param(b"f" * 16 + b"\r\n", id="a size beyond any memory"),
        pytest.param(b"1;" + b"x" * 9000, id="an extension without end"),
        pytest.param(b"0\r\n" + b"a: b\r\n" * 2000, id="trailers without end"),
    ],
)
def test_malformed_chunks_are_refused(raw: bytes) -> None:
    with pytest.raises(BodyMalformed):
        ChunkedFraming().feed(raw)


def test_read_body_works_under_another_server_too() -> None:
    def announced(length: int) -> dict[str, object]:
        return {"wsgi.input": io.BytesIO(b"abc"), "CONTENT_LENGTH": str(length)}

    environ = announced(3)
    assert read_body(environ, 3) == b"abc"
    assert BODY_RECEIVED in environ
    assert read_body(environ, 3) == b"abc"
    with pytest.raises(BodyTooLarge, match="larger than 2 bytes"):
        read_body(announced(3), 2)
    cut_short = announced(4)
    for _ in range(2):
        with pytest.raises(BodyTruncated):
            read_body(cut_short, 10)
    assert read_body({"wsgi.input": io.BytesIO(b"abc"), "wsgi.input_terminated": True}, 3) == b"abc"
    with pytest.raises(BodyTooLarge):
        read_body({"wsgi.input": io.BytesIO(b"abc"), "wsgi.input_terminated": True}, 2)
    assert read_body({"wsgi.input": io.BytesIO(b"abc")}, 3) == b""
