"""The counts of /metrics: right amounts, under the names that dashboards use."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_ext import __version__
from scheduler_ext.core.filters import REASONS
from tests.kube_objects import names_body
from tests.server.process.product import FULL_NODE, GOLDEN, GOOD, ONE_GPU, Product, config_file
from tests.server.process.server_process import connect, eventually, get, read_reply, request

pytestmark = pytest.mark.process

FILTER = (GOLDEN / "cache-01-gpu1.filter.json").read_bytes()
PRIORITIZE = (GOLDEN / "cache-01-gpu1.prioritize.json").read_bytes()
INVALID = GOOD.replace(b'"1"', b'"-1"')
DURATION, NODES = "gpu_extender_request_duration_seconds", "gpu_extender_request_nodes"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    folder: Path = tmp_path_factory.mktemp("metrics")
    config = config_file(folder, server={"maxBodyBytes": 100_000, "readTimeout": "700ms"})
    with Product(config=config) as process:
        yield process.ready()


def rejections(number: int) -> str:
    return f'gpu_extender_rejections_total{{reason="{REASONS[number].text}"}}'


def reason_number(text: str) -> int:
    return [reason.text for reason in REASONS].index(text)


def grown(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """The changed counts, without times and buckets."""
    quiet = ("_bucket", "duration_seconds_sum", "age_seconds")
    return {
        name: value - before.get(name, 0.0)
        for name, value in after.items()
        if value != before.get(name, 0.0) and not any(word in name for word in quiet)
    }


def test_the_promised_names_are_there_from_the_start_or_the_first_request(server: Product) -> None:
    assert server.post("filter", GOOD).status == 200
    reply = get(server.health, "/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = server.samples()
    assert samples[f'{DURATION}_count{{code="200",verb="filter"}}'] >= 1
    assert {rejections(number) for number in range(len(REASONS))} <= set(samples)
    assert samples['gpu_extender_inventory_nodes{state="Fresh"}'] == 10
    assert samples['gpu_extender_inventory_nodes{state="Stale"}'] == 0
    assert samples['gpu_extender_inventory_nodes{state="Missing"}'] == 0
    assert samples["gpu_extender_snapshot_generation"] == 1
    assert samples[f'gpu_extender_build_info{{version="{__version__}"}}'] == 1
    assert samples["gpu_extender_inventory_broken"] == 0
    assert 0 <= samples["gpu_extender_inventory_age_seconds"] < 60
    assert 0 <= samples["gpu_extender_forecast_age_seconds"] < 60
    # The sample's pods with GPUs, by their request.
    assert samples["gpu_extender_forecast_classes"] == 6
    assert b"_created" not in reply.body


def test_a_filter_counts_its_nodes_and_their_reasons(server: Product) -> None:
    before = server.samples()
    assert server.post("filter", FILTER).status == 200
    assert grown(before, server.samples()) == {
        f'{DURATION}_count{{code="200",verb="filter"}}': 1,
        f'{NODES}_count{{direction="in",verb="filter"}}': 1,
        f'{NODES}_sum{{direction="in",verb="filter"}}': 10,
        f'{NODES}_count{{direction="out",verb="filter"}}': 1,
        f'{NODES}_sum{{direction="out",verb="filter"}}': 7,
        rejections(reason_number("Insufficient nvidia.com/gpu per device")): 2,
        rejections(reason_number("node(s) had a GPU change in progress")): 1,
    }


def test_a_prioritize_counts_its_nodes_and_refuses_none(server: Product) -> None:
    server.post("prioritize", PRIORITIZE)
    before = server.samples()
    assert server.post("prioritize", PRIORITIZE).status == 200
    names = len(server.post("prioritize", PRIORITIZE).json())
    assert grown(before, server.samples()) == {
        f'{DURATION}_count{{code="200",verb="prioritize"}}': 2,
        f'{NODES}_count{{direction="in",verb="prioritize"}}': 2,
        f'{NODES}_sum{{direction="in",verb="prioritize"}}': 2 * names,
        f'{NODES}_count{{direction="out",verb="prioritize"}}': 2,
        f'{NODES}_sum{{direction="out",verb="prioritize"}}': 2 * names,
    }


def test_the_pods_fault_counts_as_a_success_that_refuses_every_node(server: Product) -> None:
    before = server.samples()
    assert server.post("filter", INVALID).status == 200
    moved = grown(before, server.samples())
    assert moved[rejections(reason_number("pod's GPU request is invalid"))] == 2
    assert moved[f'{DURATION}_count{{code="200",verb="filter"}}'] == 1
    assert moved.get(f'{NODES}_sum{{direction="out",verb="filter"}}') is None


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        pytest.param(b"{", (), 400, id="bad JSON"),
        pytest.param(b" " * 100_001, (), 413, id="a body above the limit"),
        pytest.param(GOOD, ("Content-Type: text/xml",), 415, id="another content type"),
        pytest.param(GOOD + b" " * 10, ("Content-Length: 9999",), 400, id="two lengths, refused before"),
    ],
)
def test_failures_count_by_code_and_nothing_else(
    server: Product, verb: str, body: bytes, headers: tuple[str, ...], code: int
) -> None:
    before = server.samples()
    assert server.post(verb, body, *headers).status == code
    expected = {f'{DURATION}_count{{code="{code}",verb="{verb}"}}': 1}
    reaches_the_application = not any("Length" in header for header in headers)
    assert grown(before, server.samples()) == (expected if reaches_the_application else {})


def test_a_decision_that_takes_too_long_counts_as_503(tmp_path: Path) -> None:
    config = config_file(tmp_path, server={"decisionDeadline": "10ms"})
    with Product(config=config) as server:
        server.ready()
        reply = server.post("filter", names_body(ONE_GPU, [f"{n:0253d}" for n in range(100_000)]))
        assert reply.status == 503
        assert "deadline exceeded" in reply.json()["error"]
        assert reply.headers["content-type"] == "application/json"
        samples = server.samples()
        assert samples[f'{DURATION}_count{{code="503",verb="filter"}}'] == 1
        assert f'{NODES}_count{{direction="in",verb="filter"}}' not in samples
        (line,) = server.logged()
        assert "filter refused with 503: deadline exceeded" in line
        # The next one is quick enough; a busy machine may need more than one try.
        assert any(server.post("filter", GOOD).status == 200 for _ in range(20))


def test_a_slow_client_and_a_truncated_body_are_counted(server: Product) -> None:
    before = server.samples()
    with connect(server.api) as in_head, connect(server.api) as in_body:
        in_head.sendall(request("/filter", GOOD)[:10])
        in_body.sendall(request("/filter", GOOD)[:-10])
        assert read_reply(in_head).status == read_reply(in_body).status == 408
    moved = grown(before, server.samples())
    assert moved == {
        'gpu_extender_connections_cut_total{reason="head"}': 1,
        'gpu_extender_connections_cut_total{reason="body"}': 1,
        f'{DURATION}_count{{code="408",verb="filter"}}': 1,
    }


def test_the_time_a_client_takes_to_send_is_not_the_extenders(server: Product) -> None:
    name = f'{DURATION}_sum{{code="200",verb="prioritize"}}'
    server.post("prioritize", PRIORITIZE)
    raw = request("/prioritize", PRIORITIZE)

    def is_short() -> bool:
        before = server.samples()[name]
        with connect(server.api) as sock:
            sock.sendall(raw[:-10])
            time.sleep(0.4)
            sock.sendall(raw[-10:])
            status = read_reply(sock).status
        return status == 200 and 0 < server.samples()[name] - before < 0.2

    # Any of several: a busy machine may hold up the extender, or the client until it is cut off.
    eventually(is_short)


def test_withheld_nodes_are_not_refused(tmp_path: Path) -> None:
    with Product(config=config_file(tmp_path, filter={"maxCandidates": 1})) as server:
        server.ready()
        names = ["gpu-node-00", "gpu-node-01", "gpu-node-04", FULL_NODE]
        assert server.post("filter", names_body(ONE_GPU, names)).json()["NodeNames"] == ["gpu-node-01"]
        samples = server.samples()
        assert samples[f'{NODES}_sum{{direction="out",verb="filter"}}'] == 1
        assert sum(samples[rejections(number)] for number in range(len(REASONS))) == 1
