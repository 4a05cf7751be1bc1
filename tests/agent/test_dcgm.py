"""Samples from a DCGM exporter: a real HTTP server that answers with an exporter's text."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.agent import dcgm as dcgm_module
from scheduler_ext.agent.dcgm import DcgmExporter, _parsed, with_brackets
from scheduler_ext.agent.node_reading import DeviceReading, InstanceReading, NodeReading, Samples

NVML = Samples(10, 5, 100.0, 40, 1000, (), True, frozenset({7}))
GPU = DeviceReading("GPU-0", 0, 81920, samples=NVML)
MIG = DeviceReading(
    "GPU-m",
    1,
    81920,
    mig_enabled=True,
    instances=(
        InstanceReading("MIG-a", "1g.10gb", gpu_instance_id=9),
        InstanceReading("MIG-b", "1g.10gb", gpu_instance_id=10),
        InstanceReading("MIG-c", "1g.10gb"),
    ),
)
HEAD = 'gpu="0",UUID="GPU-0",device="nvidia0",modelName="NVIDIA H100",hostname="n",pod="a\\"b"'
PART = 'gpu="1",UUID="GPU-m",device="nvidia1",GPU_I_PROFILE="1g.10gb"'
TEXT = f"""\
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{{HEAD}}} 97
DCGM_FI_DEV_MEM_COPY_UTIL{{{HEAD}}} 40
DCGM_FI_DEV_POWER_USAGE{{{HEAD}}} 651.5
DCGM_FI_DEV_GPU_TEMP{{{HEAD}}} 71
DCGM_FI_DEV_SM_CLOCK{{{HEAD}}} 1980
DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{HEAD}}} 36
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{PART},GPU_I_ID="9"}} 0.301
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{PART},GPU_I_ID="10"}} 0.000000
DCGM_FI_DEV_POWER_USAGE{{{PART},GPU_I_ID=""}} 300
"""


class Exporter:
    """An exporter whose text and status a test sets."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.text, self.status, self.asked = TEXT, 200, 0
        self.host = ""
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                exporter.asked += 1
                exporter.host = self.headers["Host"]
                self.send_response(exporter.status)
                self.end_headers()
                self.wfile.write(exporter.text.encode())

            def log_message(self, *_: object) -> None:
                pass

        class Server(HTTPServer):
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

        self._server = Server((address, 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.now_s = 0.0
        self.port = self._server.server_address[1]
        # As a manifest makes it of `$(HOST_IP)`.
        self.dcgm = DcgmExporter(f"http://{address}:{self.port}/metrics", lambda: self.now_s)

    def applied(self, *devices: DeviceReading) -> tuple[DeviceReading, ...]:
        self.now_s += 20
        return self.dcgm.applied(NodeReading(devices)).devices

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    exporter = Exporter()
    yield exporter
    exporter.close()


def test_its_samples_take_the_place_of_nvmls(exporter: Exporter) -> None:
    (gpu,) = exporter.applied(GPU)
    assert gpu.samples == Samples(
        97, 40, 651.5, 71, 1980, ("PowerCap", "ThermalSlowdown"), True, frozenset({7})
    )


def test_the_address_of_a_host_with_ipv6_gets_its_brackets() -> None:
    try:
        exporter = Exporter("::1")
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    (gpu,) = exporter.applied(GPU)
    exporter.close()
    assert (gpu.samples.utilization_percent, exporter.host) == (97, f"[::1]:{exporter.port}")


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("http://fd00::7:9400/metrics", "http://[fd00::7]:9400/metrics"),
        ("https://fd00::ab/metrics", "https://[fd00::ab]/metrics"),
        ("http://[fd00::7]:9400/metrics", "http://[fd00::7]:9400/metrics"),
        ("http://dcgm.monitoring:9400", "http://dcgm.monitoring:9400"),
    ],
)
def test_only_addresses_of_ipv6_get_brackets(url: str, read: str) -> None:
    assert with_brackets(url) == read


def test_instances_have_samples_at_last(exporter: Exporter) -> None:
    (gpu,) = exporter.applied(MIG)
    assert [each.samples for each in gpu.instances] == [
        Samples(30, computing=True),
        Samples(0, computing=False),
        Samples(),
    ]
    assert gpu.samples == Samples(power_watts=300)


@pytest.mark.parametrize(
    ("values", "before", "computing"),
    [
        pytest.param({"GPU_UTIL": 0, "DEC_UTIL": 3}, False, True, id="it decodes video"),
        pytest.param({"GPU_UTIL": 5}, None, True, id="only the exporter knows"),
        pytest.param({"GPU_UTIL": 0}, True, True, id="NVML, which is read more often, saw it compute"),
        pytest.param({"GPU_TEMP": 30}, True, True, id="the exporter leaves utilisation out: as NVML says"),
    ],
)
def test_whether_it_computes(
    exporter: Exporter, values: dict[str, int], before: bool | None, computing: bool
) -> None:
    exporter.text = "".join(f"DCGM_FI_DEV_{name}{{{HEAD}}} {value}\n" for name, value in values.items())
    (gpu,) = exporter.applied(replace(GPU, samples=replace(NVML, computing=before, busy_pids=None)))
    assert gpu.samples.computing is computing


@pytest.mark.parametrize(
    ("text", "status"),
    [
        pytest.param(TEXT, 500, id="an error"),
        pytest.param("<html>", 200, id="another page"),
        pytest.param(TEXT.replace("GPU-0", "GPU-x"), 200, id="the exporter of another node"),
        pytest.param('{"DCGM_FI_DEV_GPU_UTIL", =UUID="GPU-0"} 4', 200, id="a label without a name"),
        pytest.param(
            TEXT.replace("97", "NaN").split("\n")[2] + "\n", 200, id="a value that DCGM does not have"
        ),
    ],
)
def test_without_usable_samples_those_of_nvml_stay(exporter: Exporter, text: str, status: int) -> None:
    exporter.text, exporter.status = text, status
    assert exporter.applied(GPU) == (GPU,)
    exporter.text, exporter.status = TEXT, 200
    assert exporter.applied(GPU)[0].samples.utilization_percent == 97


def test_an_exporter_that_is_away(exporter: Exporter, caplog: pytest.LogCaptureFixture) -> None:
    exporter.close()
    assert exporter.applied(GPU) == (GPU,)
    assert exporter.applied(GPU) == (GPU,)
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "no samples from the DCGM exporter, using NVML's: [Errno 111] Connection refused"
    ]


def applied_at(serve: Callable[[socket.socket, threading.Event], None]) -> tuple[DeviceReading, ...]:
    """The GPU with the samples of an address where this serves the first connection, until it has them."""
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(4096)
                serve(connection, asked)

        thread = threading.Thread(target=answer)
        thread.start()
        dcgm = DcgmExporter(f"http://127.0.0.1:{server.getsockname()[1]}/metrics")
        found = dcgm.applied(NodeReading((GPU,))).devices
        asked.set()
        thread.join()
    return found


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n", "SSH-2.0-OpenSSH", id="another protocol"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n" + b"#" * 9 * 2**20, "more than", id="endless text"),
        pytest.param(b"", "closed connection", id="no answer at all"),
    ],
)
def test_an_address_of_something_else(answer: bytes, said: str, caplog: pytest.LogCaptureFixture) -> None:
    def serve(connection: socket.socket, asked: threading.Event) -> None:
        connection.sendall(answer)

    assert applied_at(serve) == (GPU,)
    (record,) = caplog.records
    assert said in record.getMessage()


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", id="its body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", id="its head"),
    ],
)
def test_an_answer_in_drops_is_given_up(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dcgm_module, "_TIMEOUT_S", 0.1)
    drops = 0

    def serve(connection: socket.socket, asked: threading.Event) -> None:
        nonlocal drops
        connection.sendall(begin)
        # A drop comes before each limit of one read; otherwise a failure would never end.
        while not asked.wait(0.02) and drops < 1000:
            connection.sendall(b"#")
            drops += 1

    assert applied_at(serve) == (GPU,)
    assert drops < 1000


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    exporter = Exporter()
    assert exporter.applied(GPU)[0].samples.utilization_percent == 97
    exporter.close()


@given(st.text('DCGM_FI{}",=\\ UID0-9.eNaInf\n#\x00é', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        _parsed(text)


def test_it_is_asked_no_more_often_than_it_collects(exporter: Exporter) -> None:
    exporter.applied(GPU)
    exporter.now_s += 5
    exporter.dcgm.applied(NodeReading((GPU,)))
    assert exporter.asked == 1


def test_a_broken_gpu_stays_as_it_was_read(exporter: Exporter) -> None:
    broken = replace(GPU, faults=("GPU is lost",), samples=Samples())
    assert exporter.applied(broken) == (broken,)
