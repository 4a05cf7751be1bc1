"""Requests to an API server: their bytes, their answers, and every failure; and where there is none."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from scheduler_ext.cluster.client import transport as transport_module
from scheduler_ext.cluster.client.transport import (
    APPLY,
    MERGE,
    RefusedError,
    ServerClock,
    SilentError,
    Transport,
    UnreachableError,
    UnsentError,
)
from scheduler_ext.core.errors import ClusterError
from tests.cluster.api.api_faults import AnswerFault, Cut, Drip, End, Line, Refuse, Reset
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import GPU_NODES, NODES
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import gpu_node, node

WATCH = {"watch": "1", "allowWatchBookmarks": "true"}


@pytest.fixture(autouse=True)
def some_nodes(server: ApiServer) -> None:
    server.store.put_all(NODES, [node(f"n{number}") for number in range(20)])


def now(server: ApiServer) -> dict[str, str]:
    return WATCH | {"resourceVersion": str(server.store.version)}


def test_an_answer_comes_with_the_servers_time(server: ApiServer, tmp_path: Path) -> None:
    server.clock = lambda: 1_800_000_000.75
    built = Transport.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"))
    built._monotonic = lambda: 77.0
    reply = built.get(NODES, {"limit": "1"})
    built.close()
    assert b'"name":"n0"' in reply.body
    assert reply.clock == ServerClock(1_800_000_000.0, 77.0)


@pytest.mark.parametrize(
    ("kind", "body", "path"),
    [
        pytest.param(
            MERGE, {"metadata": {"annotations": {"a": "b"}}}, f"{NODES}/n1", id="a merge patch of objects"
        ),
        pytest.param(
            APPLY,
            b'{"apiVersion":"gpu.scheduler-ext.io/v1alpha1","kind":"GPUNode","metadata":{"name":"n1"}}',
            f"{GPU_NODES}/n1",
            id="an apply of bytes",
        ),
    ],
)
def test_writes_arrive_as_they_are(
    server: ApiServer, transport: Transport, kind: str, body: bytes | dict[str, object], path: str
) -> None:
    server.store.put(GPU_NODES, gpu_node("n1", []))
    transport.send("PATCH", path, body, kind, {"fieldManager": "test", "force": "true"})
    (request,) = server.log.all(lambda request: request.method == "PATCH")
    assert request.headers["content-type"] == kind
    assert request.body == body if isinstance(body, bytes) else request.json() == body


@pytest.mark.parametrize(
    ("fault", "status", "message", "retry_after_s"),
    [
        pytest.param(
            Refuse(403, "Forbidden", "may not"), 403, "403 Forbidden: may not", None, id="no right to"
        ),
        pytest.param(
            Refuse(429, "TooManyRequests", "slow down", 7),
            429,
            "429 TooManyRequests: slow down",
            7.0,
            id="busy",
        ),
        pytest.param(
            Refuse(503, "", ""), 503, "503 Service Unavailable: ", None, id="a status without words"
        ),
    ],
)
def test_a_refusal_is_reported(
    server: ApiServer,
    transport: Transport,
    fault: AnswerFault,
    status: int,
    message: str,
    retry_after_s: float | None,
) -> None:
    server.faults.place(fault)
    with pytest.raises(RefusedError) as refusal, transport.watch(NODES, now(server)):
        pass
    assert (str(refusal.value), refusal.value.status) == (message, status)
    assert refusal.value.retry_after_s == retry_after_s
    # The same connection, or another, serves the next one.
    assert transport.get(NODES).body


@pytest.mark.parametrize(
    ("header", "least_s", "most_s"),
    [
        pytest.param("30", 30, 30, id="seconds"),
        pytest.param("Fri, 01 Jan 2100 00:00:00 GMT", 3600, 1e10, id="a date to come"),
        pytest.param("Fri, 01 Jan 1999 00:00:00 GMT", 0, 0, id="a date that has passed"),
        pytest.param("soon", None, None, id="a word"),
        pytest.param("-1", None, None, id="a negative number"),
        pytest.param("", None, None, id="nothing"),
    ],
)
def test_retry_after(
    server: ApiServer, transport: Transport, header: str, least_s: float | None, most_s: float | None
) -> None:
    server.hook = lambda _: Answer(503, b"<html>down", {"Retry-After": header})
    with pytest.raises(RefusedError, match="503 Service Unavailable: <html>down") as refusal:
        transport.get(NODES)
    found = refusal.value.retry_after_s
    if least_s is None or most_s is None:
        assert found is None
    else:
        assert found is not None
        assert least_s <= found <= most_s


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Reset(), id="a reset"),
        pytest.param(Cut(100), id="half an answer"),
    ],
)
def test_no_whole_answer_is_none(server: ApiServer, transport: Transport, fault: AnswerFault) -> None:
    server.faults.place(fault)
    with pytest.raises(UnreachableError) as error:
        transport.get(NODES)
    assert not isinstance(error.value, SilentError)
    assert "\n" not in str(error.value)
    assert transport.get(NODES).body


def test_an_answer_in_drips_is_not_waited_for(server: ApiServer, transport: Transport) -> None:
    server.faults.place(Drip(100, 0.005))
    seconds = itertools.count()
    transport._monotonic = lambda: float(next(seconds))
    with pytest.raises(SilentError, match="not whole in time"):
        transport.get(NODES, timeout_s=6.0)
    server.hook = lambda _: Answer(500, b"x" * 8000)
    server.faults.place(Drip(100, 0.005))
    with pytest.raises(SilentError, match="not whole in time"):
        transport.get(NODES, timeout_s=6.0)
    server.hook = None
    # The next one does not begin with the rest of it.
    assert transport.get(NODES).body.startswith(b'{"kind":"NodeList"')


def test_an_unsent_request_is_distinguished_from_a_sent_one(server: ApiServer, transport: Transport) -> None:
    server.faults.place(Reset())
    with pytest.raises(UnreachableError) as error:
        transport.send("PATCH", f"{NODES}/n1", {}, MERGE, timeout_s=5.0)
    assert not isinstance(error.value, UnsentError)
    server.stop()
    with pytest.raises(UnsentError, match="refused"):
        transport.send("PATCH", f"{NODES}/n1", {}, MERGE, timeout_s=5.0)


def test_outside_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match=r"^not in a cluster: .*--kubeconfig$"):
        Transport.in_cluster()


def test_credentials_that_cannot_be_renewed_are_no_answer(server: ApiServer, transport: Transport) -> None:
    def renew(*_: object) -> None:
        raise OSError("no such program")

    transport._configuration.api_key["BearerToken"] = "Bearer old"
    transport._configuration.refresh_api_key_hook = renew  # type: ignore[assignment]
    with pytest.raises(UnreachableError, match="no such program"):
        transport.send("POST", NODES, {}, MERGE)
    assert server.log.count() == 0


class TestWatch:
    def lines(self, server: ApiServer, transport: Transport, count: int) -> list[bytes]:
        found: list[bytes] = []
        with transport.watch(NODES, WATCH | {"resourceVersion": "1"}) as stream:
            for lines in stream.batches():
                found += lines
                if len(found) >= count:
                    break
        return found

    def test_lines_in_pieces_are_joined(self, server: ApiServer, transport: Transport) -> None:
        whole = self.lines(server, transport, 20)
        server.faults.place(Drip(97, 0.0))
        assert self.lines(server, transport, 20) == whole

    @pytest.mark.parametrize("end", [End("connection"), End("reset")], ids=["connection", "reset"])
    def test_one_that_breaks_off_is_lost(self, server: ApiServer, transport: Transport, end: End) -> None:
        version = now(server)
        server.faults.place(end)
        with transport.watch(NODES, version) as stream, pytest.raises(UnreachableError):
            list(stream.batches())

    def test_a_line_without_end_is_lost(
        self, server: ApiServer, transport: Transport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(transport_module, "_MAX_LINE", 1 << 20)
        version = now(server)
        server.faults.place(Line(b"x" * (2 << 20)))
        with (
            transport.watch(NODES, version) as stream,
            pytest.raises(UnreachableError, match="a line of more than 1 MiB"),
        ):
            list(stream.batches())

    def test_the_connection_of_a_watch_ends_with_the_watch(
        self, server: ApiServer, transport: Transport
    ) -> None:
        with transport.watch(NODES, now(server)) as stream:
            server.wait_for_watches(1)
        server.wait_for_watches(0)
        # Not because it is forgotten.
        del stream
