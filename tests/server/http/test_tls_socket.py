"""TLS over a non-blocking socket loses no byte, and leaves none where a poller cannot see it."""

from __future__ import annotations

import itertools
import random
import select
import socket
import ssl
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.server.http.certificates import load_context
from scheduler_ext.server.http.tls_socket import TlsSocket
from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.authority import HOST, Authority

RECORD = 16 * 1024
NOISE = random.Random(1).randbytes(1 << 20)
# What Linux makes of any smaller wish.
SMALLEST_BUFFER_BYTES = 4608


class Pair:
    """A TlsSocket, and the client's end with OpenSSL on memory, so that a test says when what is sent."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, send_buffer_bytes: int = 0) -> None:
        ours, self.sock = socket.socketpair()
        if send_buffer_bytes:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        self.server = TlsSocket(ours, server)
        self.server.setblocking(False)
        self.sock.settimeout(60)
        self._arrived = ssl.MemoryBIO()
        self._departing = ssl.MemoryBIO()
        self._client = client.wrap_bio(self._arrived, self._departing, server_hostname=HOST)

    def client_shakes(self) -> bool:
        try:
            self._client.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self.sock.sendall(self._departing.read())
        return True

    def agreed(self) -> Pair:
        self.client_shakes()
        while not self.server.handshake() or not self.client_shakes():
            if self.readable(self.sock):
                self.arrive()
                self.client_shakes()
        return self

    def seal(self, data: bytes) -> bytes:
        """The client's records for these bytes."""
        self._client.write(data)
        return self._departing.read()

    def farewell(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self._client.unwrap()
        return self._departing.read()

    def arrive(self, size: int = 1 << 20) -> int:
        """Let up to `size` bytes from the server through to the client."""
        received = self.sock.recv(size)
        if received:
            self._arrived.write(received)
        else:
            self._arrived.write_eof()
        return len(received)

    def opened(self) -> bytes:
        """What the client makes of what has arrived. Raises ssl.SSLError when it ends without farewell."""
        pieces = []
        try:
            while piece := self._client.read(RECORD):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        return b"".join(pieces)

    def received_by_poller(self) -> list[bytes]:
        """What the server gets out of recv, called only while the kernel says that there is something."""
        pieces = []
        while self.readable(self.server):
            try:
                pieces.append(self.server.recv(100))
            except BlockingIOError:
                continue
            if not pieces[-1]:
                break
        return pieces

    @staticmethod
    def readable(end: TlsSocket | socket.socket) -> bool:
        return bool(select.select([end], [], [], 0)[0])

    def close(self) -> None:
        self.server.close()
        self.sock.close()


MakePair = Callable[..., Pair]


@pytest.fixture(scope="module")
def contexts(authority: Authority, files: TlsFiles) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return load_context(files), authority.client()


@pytest.fixture
def pair(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[Pair]:
    made = Pair(*contexts).agreed()
    yield made
    made.close()


@given(st.lists(st.integers(1, RECORD), max_size=8), st.lists(st.integers(0, 200_000), max_size=12))
def test_however_records_are_sized_and_cut_the_poller_gets_all_of_them(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], sizes: list[int], cuts: list[int]
) -> None:
    pair = Pair(*contexts).agreed()
    ends = list(itertools.accumulate(sizes))
    data = NOISE[: sum(sizes)]
    records = [pair.seal(data[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    sealed = b"".join(records)
    whole = {0, *itertools.accumulate(map(len, records))}
    edges = [0, *sorted(cut % (len(sealed) + 1) for cut in cuts), len(sealed)]
    received = b""
    for start, end in itertools.pairwise(edges):
        pair.sock.sendall(sealed[start:end])
        received += b"".join(pair.received_by_poller())
        assert pair.server.mid_record == (end not in whole)
        done = sum(size for size, reached in zip(sizes, sorted(whole - {0}), strict=True) if reached <= end)
        assert received == data[:done]
    pair.close()


@given(
    st.lists(st.integers(1, 200_000), min_size=1, max_size=5),
    st.lists(st.integers(1, 50_000), max_size=20),
    st.booleans(),
)
def test_however_slowly_a_client_reads_it_gets_all_that_counts_as_sent(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], sizes: list[int], reads: list[int], greets: bool
) -> None:
    pair = Pair(*contexts, send_buffer_bytes=SMALLEST_BUFFER_BYTES).agreed()
    pieces = [memoryview(NOISE)[:size] for size in sizes]
    expected = b"".join(pieces)
    if greets:
        # More than the kernel takes: it has to stay in front of what follows.
        pair.server.send(NOISE[:30_000])
        expected = NOISE[:30_000] + expected
    received = b""
    rests = itertools.chain(reads, itertools.repeat(65536))
    while pieces:
        try:
            sent = pair.server.sendmsg(pieces)
        except BlockingIOError:
            pair.arrive(next(rests))
            received += pair.opened()
            continue
        assert 0 < sent <= 64 * 1024
        while pieces and sent >= len(pieces[0]):
            sent -= len(pieces.pop(0))
        if sent:
            pieces[0] = pieces[0][sent:]
    assert not pair.server.has_unsent
    while pair.readable(pair.sock):
        pair.arrive()
    assert received + pair.opened() == expected
    pair.close()


def test_a_request_may_come_with_the_end_of_the_handshake(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    pair = Pair(*contexts)
    pair.client_shakes()
    assert not pair.server.handshake()
    pair.arrive()
    pair.client_shakes()
    pair.sock.sendall(pair.seal(b"POST") + pair.seal(b" /filter"))
    assert pair.server.handshake()
    assert not pair.readable(pair.server)
    assert pair.server.recv(100) == b"POST /filter"
    with pytest.raises(BlockingIOError):
        pair.server.recv(100)
    pair.close()


def test_a_handshake_waits_for_a_client_that_does_not_read(authority: Authority, files: TlsFiles) -> None:
    chain = files.cert_file.with_name("chain.crt")
    chain.write_bytes(files.cert_file.read_bytes() + authority.ca_pem * 40)
    context = load_context(TlsFiles(chain, files.key_file, files.client_ca_file))
    pair = Pair(context, authority.client(), send_buffer_bytes=SMALLEST_BUFFER_BYTES)
    pair.client_shakes()
    assert not pair.server.handshake()
    for _ in range(3):
        assert pair.server.has_unsent
        assert not pair.server.handshake()
    while pair.server.has_unsent:
        pair.arrive(1000)
        assert not pair.server.handshake()
    pair.agreed()
    pair.sock.sendall(pair.seal(b"hello"))
    assert pair.received_by_poller() == [b"hello"]
    pair.close()


@pytest.mark.parametrize("says_so", [True, False], ids=["in TLS", "in TCP only"])
def test_the_end_behind_the_last_bytes_is_seen_by_the_poller(pair: Pair, says_so: bool) -> None:
    pair.sock.sendall(pair.seal(b"last") + (pair.farewell() if says_so else b""))
    if not says_so:
        pair.sock.shutdown(socket.SHUT_WR)
    assert pair.received_by_poller() == [b"last", b""]
    # The other direction is still open.
    pair.server.sendmsg([memoryview(b"reply")])
    pair.arrive()
    assert pair.opened() == b"reply"


def test_hanging_up_within_a_record_is_an_end(pair: Pair) -> None:
    pair.sock.sendall(pair.seal(b"record")[:-1])
    pair.sock.close()
    assert pair.received_by_poller() == [b""]


@pytest.mark.parametrize("end", ["shutdown", "close"])
def test_the_client_is_told_of_the_end(pair: Pair, end: str) -> None:
    pair.server.sendmsg([memoryview(b"last")])
    if end == "shutdown":
        pair.server.shutdown(socket.SHUT_WR)
    else:
        pair.server.close()
    while pair.arrive():
        pass
    # Without the farewell this raises.
    assert pair.opened() == b"last"
    assert pair.opened() == b""


def test_what_comes_after_the_end_is_not_decrypted(pair: Pair) -> None:
    pair.server.shutdown(socket.SHUT_WR)
    sealed = pair.seal(b"too late")
    pair.sock.sendall(sealed)
    assert b"".join(pair.received_by_poller()) == sealed
    pair.arrive()
    pair.sock.close()
    assert pair.server.recv(100) == b""


def test_a_broken_record_is_an_error_and_the_client_is_told(pair: Pair) -> None:
    sealed = bytearray(pair.seal(b"record"))
    sealed[-1] ^= 1
    pair.sock.sendall(sealed)
    with pytest.raises(ssl.SSLError):
        pair.server.recv(100)
    pair.arrive()
    with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
        pair.opened()


def test_a_client_that_hangs_up_while_shaking_hands_has_not_been_refused(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    for asks in (False, True):
        pair = Pair(*contexts)
        if asks:
            pair.client_shakes()
            assert not pair.server.handshake()
        pair.sock.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionAbortedError):
            pair.server.handshake()
        pair.close()


def test_no_session_can_be_resumed_by_ticket(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    pair = Pair(*contexts).agreed()
    # Tickets would follow the handshake.
    assert not pair.readable(pair.sock)
    assert not pair.server.has_unsent
    pair.close()
