"""kube-scheduler's verbs: what is answered, refused, logged and counted; the other paths of all listeners."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_ext import __version__
from scheduler_ext.core.filters import REASONS
from scheduler_ext.wire.config import Configuration, FilterSection, MetricsSection, ServerSection
from tests.kube_objects import Json, names_body, pod
from tests.pages import SAMPLE
from tests.server.process.product import (
    FREE_NODE,
    FULL_NODE,
    GOLDEN,
    GOOD,
    ONE_GPU,
    WHOLE,
)
from tests.server.served import Served, served

LIMIT = 1_000_000
CONFIG = Configuration(server=ServerSection(max_body_bytes=LIMIT, decision_deadline="60s"))
NAMES = [FREE_NODE, FULL_NODE, "nosuch"]
HUGE = "n" * 200_000
INVALID = "pod's GPU request is invalid"
UNKNOWN = "node(s) had no fresh GPU inventory"
DURATION, NODES = "gpu_extender_request_duration_seconds", "gpu_extender_request_nodes"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(config=CONFIG) as found:
        yield found


def rejections(reason: str) -> str:
    return f'gpu_extender_rejections_total{{reason="{reason}"}}'


COUNTED = (f"{DURATION}_count", f"{NODES}_count", f"{NODES}_sum", "gpu_extender_rejections_total")


def grown(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """The changed counts of requests; threads count other things at any time."""
    return {
        name: value - before.get(name, 0.0)
        for name, value in after.items()
        if value != before.get(name, 0.0) and name.startswith(COUNTED)
    }


def answered(verb: str, nodes_in: int, nodes_out: int, **reasons: int) -> dict[str, float]:
    """The counts of one answer; zeros are no change."""
    told = {
        f'{DURATION}_count{{code="200",verb="{verb}"}}': 1,
        f'{NODES}_count{{direction="in",verb="{verb}"}}': 1,
        f'{NODES}_sum{{direction="in",verb="{verb}"}}': nodes_in,
        f'{NODES}_count{{direction="out",verb="{verb}"}}': 1,
        f'{NODES}_sum{{direction="out",verb="{verb}"}}': nodes_out,
    }
    told |= {rejections(reason): number for reason, number in reasons.items()}
    return {name: value for name, value in told.items() if value}


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return lines


@pytest.mark.parametrize(
    ("asking", "told"),
    [
        pytest.param(pod("asks", {WHOLE: "-1"}), "is negative", id="a negative count"),
        pytest.param(pod(HUGE, {WHOLE: "-1"}), "is negative", id="a name without end"),
        pytest.param(pod("asks", {"nvidia.com/mig-" + HUGE: "1"}), "mig-nnn", id="a profile without end"),
    ],
)
def test_the_pods_fault_is_a_success_in_which_no_node_is_left(
    server: Served, asking: Json, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = server.samples()
    reply = server.post("filter", names_body(asking, NAMES))
    assert (reply.status_code, reply.json["NodeNames"]) == (200, [])  # type: ignore[index]
    assert reply.json["FailedAndUnresolvableNodes"] == dict.fromkeys(NAMES, INVALID)  # type: ignore[index]
    (line,) = warned(caplog)
    assert line.startswith("GPU request is invalid: pod default/")
    assert told in line
    assert len(line) < 600
    assert grown(before, server.samples()) == answered("filter", 3, 0, **{INVALID: 3})


KINDS = {"Content_Type": "application/json"}
Body = Callable[[], bytes]


@pytest.mark.parametrize(
    ("body", "headers", "status", "told"),
    [
        pytest.param(lambda: b"", {}, 400, "body: empty", id="nothing"),
        pytest.param(lambda: GOOD.ljust(LIMIT + 1), {}, 413, f"larger than {LIMIT} bytes", id="too large"),
        pytest.param(lambda: GOOD, {"Content_Type": "x" * 5000}, 415, "'xxx", id="a type of 5 kB"),
        pytest.param(lambda: GOOD, {"Content_Encoding": "gzip"}, 415, "'gzip'", id="compressed"),
        pytest.param(lambda: GOOD, {"Origin": "https://evil.example"}, 403, "may not ask", id="a web page"),
        pytest.param(
            lambda: names_body(pod("p", {"nvidia.com/mig-" + HUGE: []}), [FREE_NODE]),
            {},
            400,
            "Pod.spec: container 'main': nvidia.com/mig-nnn",
            id="a resource without end",
        ),
    ],
)
def test_a_refusal_is_one_short_json_error_one_short_log_line_and_one_count(
    server: Served,
    body: Body,
    headers: dict[str, str],
    status: int,
    told: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = server.samples()
    reply = server.post("filter", body(), **headers)
    assert (reply.status_code, reply.content_type) == (status, "application/json"), reply.text
    (error,) = reply.json.values()  # type: ignore[union-attr]
    assert told in error
    assert len(error) < 600
    assert warned(caplog) == [f"filter refused with {status}: {error}"]
    assert grown(before, server.samples()) == {f'{DURATION}_count{{code="{status}",verb="filter"}}': 1}


@pytest.mark.parametrize(
    "headers",
    [
        {"Content_Type": "application/json"},
        {"Content_Type": "APPLICATION/JSON; charset=utf-8"},
        {"Content_Type": "application/x-www-form-urlencoded"},
        {"Content_Encoding": "identity"},
        {"User_Agent": "kube-scheduler/v1.37.0 (linux/amd64)", "Accept_Encoding": "gzip"},
    ],
)
def test_json_may_be_called_so_or_nothing(server: Served, headers: dict[str, str]) -> None:
    reply = server.post("filter", GOOD, **headers)
    assert (reply.status_code, reply.json["NodeNames"]) == (200, [FREE_NODE])  # type: ignore[index]
    assert "Content-Encoding" not in reply.headers


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
@pytest.mark.parametrize(
    "header",
    [
        pytest.param({"Origin": "http://localhost"}, id="this host, which a rebound name would be"),
        pytest.param({"Sec_Fetch_Site": "same-origin"}, id="this host, by Sec-Fetch-Site"),
    ],
)
def test_no_web_page_is_a_kube_scheduler(server: Served, verb: str, header: dict[str, str]) -> None:
    reply = server.post(verb, GOOD, **KINDS, **header)
    assert reply.status_code == 403
    assert "web pages may not ask here" in reply.text


class TestCounts:
    FILTER = (GOLDEN / "cache-01-gpu1.filter.json").read_bytes()
    PRIORITIZE = (GOLDEN / "cache-01-gpu1.prioritize.json").read_bytes()

    def test_before_and_after_the_first_request(self) -> None:
        with served() as fresh:
            samples = fresh.samples()
            assert {samples[rejections(reason.text)] for reason in REASONS} == {0}
            told = {
                'inventory_nodes{state="Fresh"}': 10,
                'inventory_nodes{state="Stale"}': 0,
                'inventory_nodes{state="Missing"}': 0,
                "snapshot_generation": 1,
                f'build_info{{version="{__version__}"}}': 1,
                "inventory_broken": 0,
                # The sample's pods with GPUs, by their request.
                "forecast_classes": 6,
            }
            assert {name: samples[f"gpu_extender_{name}"] for name in told} == told
            assert samples["gpu_extender_inventory_age_seconds"] >= 0
            assert not any(name.endswith("_created") for name in samples)
            reply = fresh.ask("health", "/metrics")
            assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"

    def test_a_filter_counts_its_nodes_and_their_reasons(self, server: Served) -> None:
        before = server.samples()
        assert server.post("filter", self.FILTER).status_code == 200
        reasons = {"Insufficient nvidia.com/gpu per device": 2, "node(s) had a GPU change in progress": 1}
        assert grown(before, server.samples()) == answered("filter", 10, 7, **reasons)

    def test_a_prioritize_refuses_none(self, server: Served) -> None:
        before = server.samples()
        names = len(server.post("prioritize", self.PRIORITIZE).json)  # type: ignore[arg-type]
        assert grown(before, server.samples()) == answered("prioritize", names, names)

    def test_withheld_nodes_are_not_refused(self) -> None:
        with served(config=Configuration(filter=FilterSection(max_candidates=1))) as server:
            names = ["gpu-node-00", "gpu-node-01", "gpu-node-04", FULL_NODE]
            found: Any = server.post("filter", names_body(ONE_GPU, names)).json
            assert found["NodeNames"] == ["gpu-node-01"]
            samples = server.samples()
            assert samples[f'{NODES}_sum{{direction="out",verb="filter"}}'] == 1
            assert sum(samples[rejections(reason.text)] for reason in REASONS) == 1


def test_filter_for_the_best_nodes_withholds_the_others(server: Served) -> None:
    names = ["gpu-node-00", "gpu-node-01", "gpu-node-04", FULL_NODE]
    before = server.samples()
    best, all_fitting = (
        server.post(verb, names_body(ONE_GPU, names)).json for verb in ("filter/best", "filter")
    )
    assert best == all_fitting | {"NodeNames": ["gpu-node-01"]}  # type: ignore[operator]
    assert all_fitting["NodeNames"] == names[:3]  # type: ignore[index]
    assert grown(before, server.samples())[f'{NODES}_count{{direction="out",verb="filter"}}'] == 2


READ = {"GET", "HEAD", "OPTIONS"}
SEND = {"POST", "OPTIONS"}


@pytest.mark.parametrize(
    ("listener", "method", "path", "allow"),
    [
        *(pytest.param("api", "GET", f"/{verb}", SEND) for verb in ("filter", "preempt", "bind")),
        pytest.param("api", "PUT", "/prioritize", SEND),
        pytest.param("api", "BREW", "/filter", SEND, id="an unknown method"),
        pytest.param("api", "POST", "/version", READ),
        pytest.param("api", "GET", "/metrics", set(), id="metrics are elsewhere"),
        pytest.param("api", "POST", "/filter/", set(), id="a slash too many"),
        pytest.param("api", "POST", "/%ff%00%0a", set(), id="a path that is no text"),
        *(pytest.param("health", "POST", path, READ) for path in ("/livez", "/readyz", "/metrics")),
        pytest.param("health", "POST", "/filter", set(), id="health does not filter"),
        pytest.param("inspect", "PUT", "/explain", READ | SEND),
        *(pytest.param("inspect", "PUT", path, READ) for path in ("/debug/ledger", "/debug/snapshot")),
    ],
)
def test_other_paths_and_methods(
    server: Served,
    listener: str,
    method: str,
    path: str,
    allow: set[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    reply = server.ask(listener, path, method, b"x" * 100)
    status = 405 if allow else 404
    assert (reply.status_code, reply.content_type) == (status, "application/json")
    (error,) = json.loads(reply.data).values()
    assert error.startswith(f"{status} ")
    assert method in error
    assert {each for each in reply.headers.get("Allow", "").split(", ") if each} == allow
    (line,) = warned(caplog)
    assert line.startswith(f"{listener} refused: {status} ")
    assert line.isprintable()


def test_probes_and_the_version(server: Served) -> None:
    for path, text in (
        ("/livez", "ok"),
        ("/readyz", "ok"),
        ("/readyz?verbose", "[+]inventory ok\nreadyz check passed\n"),
    ):
        reply = server.ask("health", path)
        assert (reply.status_code, reply.text) == (200, text)
        assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
        head = server.ask("health", path, "HEAD")
        assert (head.status_code, head.data) == (200, b"")
    assert server.ask("api", "/version").json == {"name": "scheduler-ext", "version": __version__}


def test_metrics_name_only_pods_that_wait(tmp_path: Path) -> None:
    """Also at the finest level of detail: without NetworkPolicies, every pod of the cluster reads them."""
    waits = pod("waits", {WHOLE: "9"})
    waits["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    objects = [*yaml.safe_load_all(SAMPLE.read_bytes()), waits]
    names = {each["metadata"]["name"] for each in objects if each["kind"] == "Pod"}
    assert len(names) > 1
    inventory = tmp_path / "served.yaml"
    inventory.write_text(yaml.safe_dump_all(objects))
    config = Configuration(server=CONFIG.server, metrics=MetricsSection(detail="device"))
    with served(inventory, config) as server:
        labels = " ".join(server.samples())
    assert [name for name in names if f'"{name}"' in labels] == ["waits"]
    assert all(f'"{name}"' in labels for name in ("h100-01", "research"))
