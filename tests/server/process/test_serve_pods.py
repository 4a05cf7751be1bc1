"""Faults of the pod, of the caller, and of neither: answers that kube-scheduler tells apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kube_objects import ANNOTATION, SHARE, Json, names_body, pod
from tests.server.process.product import (
    FREE_NODE,
    FULL_NODE,
    GOLDEN,
    GOOD,
    ONE_GPU,
    WHOLE,
    Product,
    as_kube_scheduler_reads,
    filtered,
)
from tests.server.process.server_process import call, connect, request

pytestmark = pytest.mark.process

NAMES = [FREE_NODE, FULL_NODE, "nosuch"]
INVALID = "pod's GPU request is invalid"


@pytest.fixture(scope="module")
def server() -> Iterator[Product]:
    with Product() as process:
        yield process.ready()


def asks(limits: Json, **annotations: str) -> Json:
    wishes = {ANNOTATION + key.replace("_", "-"): value for key, value in annotations.items()}
    return pod("asks", limits, annotations=wishes)


def one(**annotations: str) -> Json:
    return asks({WHOLE: "1"}, **annotations)


@pytest.mark.parametrize(
    ("asking", "told"),
    [
        pytest.param(asks({WHOLE: "-1"}), "is negative", id="a negative count"),
        pytest.param(asks({WHOLE: -1}), "is negative", id="a negative bare number"),
        pytest.param(asks({WHOLE: "500m"}), "is fractional", id="half a GPU"),
        pytest.param(asks({WHOLE: 1.5}), "is fractional", id="a bare fraction"),
        pytest.param(asks({WHOLE: "two"}), "cannot be read", id="a word"),
        pytest.param(asks({WHOLE: ""}), "cannot be read", id="an empty quantity"),
        pytest.param(asks({WHOLE: "1 "}), "cannot be read", id="a space too many"),
        pytest.param(asks({WHOLE: "٣"}), "cannot be read", id="digits of another script"),
        pytest.param(asks({WHOLE: "9" * 30}), "is absurd", id="thirty digits"),
        pytest.param(asks({WHOLE: 10**30}), "is absurd", id="thirty bare digits"),
        pytest.param(asks({WHOLE: "1" * 1000}), "is absurd", id="a thousand digits"),
        pytest.param(asks({WHOLE: "1e999999999"}), "is absurd", id="a huge exponent"),
        pytest.param(asks({WHOLE: "1e-999999999"}), "is absurd", id="a tiny exponent"),
        pytest.param(asks({SHARE: "-8192"}), "is negative", id="a negative share"),
        pytest.param(asks({SHARE: "1Pi"}), "the number counts MiB", id="a share in bytes"),
        pytest.param(asks({"nvidia.com/mig-nonsense": "1"}), "nvidia.com/mig-nonsense", id="no MIG profile"),
        pytest.param(one(min_memory="lots"), "min-memory", id="a min-memory in words"),
        pytest.param(one(min_memory="40"), "was forgotten", id="forty bytes of memory"),
        pytest.param(one(min_free_memory="-1Gi"), "min-free-memory", id="negative free memory"),
        pytest.param(one(min_compute_capability="new"), "min-compute-capability", id="a capability in words"),
        pytest.param(one(min_cuda="12.x"), "min-cuda", id="half a CUDA version"),
        pytest.param(one(strategy="random"), "binpack, spread", id="an unknown strategy"),
        pytest.param(one(sharing="maybe"), "exclusive, any", id="an unknown sharing mode"),
        pytest.param(one(model=""), "model is empty", id="an empty model"),
        pytest.param(one(model="A100;H100"), "no product name", id="models with the wrong separator"),
    ],
)
def test_the_pods_fault_is_a_success_in_which_no_node_is_left(
    server: Product, asking: Json, told: str
) -> None:
    with connect(server.api) as sock:
        reply = call(sock, request("/filter", names_body(asking, NAMES)))
        assert reply.status == 200
        assert filtered(reply) == ([], dict.fromkeys(NAMES, INVALID))
        (line,) = server.logged()
        assert "GPU request is invalid: pod default/asks: " in line
        assert told in line
        assert len(line) < 500
        scores = call(sock, request("/prioritize", names_body(asking, NAMES)))
        assert scores.json() == [{"Host": name, "Score": 0} for name in NAMES]
        assert server.logged() == []


def test_the_pods_fault_leaves_no_whole_node_either(server: Product) -> None:
    body = json.loads((GOLDEN / "full-03-mig-1g.filter.json").read_bytes())
    names = [node["metadata"]["name"] for node in body["Nodes"]["items"]]
    body["Pod"]["metadata"]["annotations"] = {ANNOTATION + "strategy": "random"}
    result = server.post("filter", json.dumps(body).encode()).json()
    assert result == {
        "Nodes": {"items": []},
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": dict.fromkeys(names, INVALID),
        "Error": "",
    }


TOO_MANY = asks({WHOLE: "9"})


@pytest.mark.parametrize(
    ("body", "headers", "read"),
    [
        pytest.param(GOOD, (), [FREE_NODE], id="a node fits: it goes on with that node"),
        pytest.param(names_body(TOO_MANY, NAMES), (), [], id="no node fits: unschedulable"),
        pytest.param(
            names_body(asks({WHOLE: "-1"}), NAMES), (), [], id="the pod cannot be meant: unschedulable"
        ),
        pytest.param(names_body(ONE_GPU, ["nosuch"]), (), [], id="no node is known: unschedulable"),
        pytest.param(names_body(ONE_GPU, []), (), [], id="no node was asked about: none comes back"),
        pytest.param(names_body(pod("plain"), NAMES), (), NAMES, id="no GPU is asked: every node stays"),
        pytest.param(b"{}", (), None, id="no request at all: an error"),
        pytest.param(GOOD[:-1], (), None, id="a request cut short: an error"),
        pytest.param(GOOD, ("Content-Encoding: gzip",), None, id="an unreadable request: an error"),
    ],
)
def test_error_and_no_node_fits_are_distinguished(
    server: Product, body: bytes, headers: tuple[str, ...], read: list[str] | None
) -> None:
    reply = server.post("filter", body, *headers)
    assert as_kube_scheduler_reads(reply, NAMES) == read
    if read is None:
        assert 400 <= reply.status < 500
        assert list(reply.json()) == ["error"]
    else:
        result = reply.json()
        assert (result["Error"], result["FailedNodes"]) == ("", {})
        assert type(result["NodeNames"]) is list
        asked = json.loads(body)["NodeNames"]
        assert set(result["FailedAndUnresolvableNodes"]) == set(asked) - set(read)
    server.logged()


def nulled(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Copies of an object with each field, on any level, replaced by null in turn."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield f"{path}.{key}", value | {key: None}
            for where, changed in nulled(part, f"{path}.{key}"):
                yield where, value | {key: changed}
    elif isinstance(value, list):
        for i, part in enumerate(value):
            for where, changed in nulled(part, f"{path}[{i}]"):
                yield where, [*value[:i], changed, *value[i + 1 :]]


@pytest.mark.parametrize("name", ["cache-11-preempt", "cache-04-mem-ignored", "full-03-mig-1g"])
def test_null_is_absent_for_every_field_but_the_pod(server: Product, name: str) -> None:
    body = json.loads((GOLDEN / f"{name}.filter.json").read_bytes())
    wheres = 0
    with connect(server.api) as sock:
        for where, changed in nulled(body):
            reply = call(sock, request("/filter", json.dumps(changed).encode()))
            assert reply.status == (400 if where == ".Pod" else 200), (where, reply.body)
            wheres += 1
    assert wheres > 40
    # A null amount is 0, as in Go, and then request and limit contradict each other.
    known = ("Pod: missing", "differ; make them equal")
    assert [line for line in server.logged() if not line.split("; send")[0].endswith(known)] == []


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        pytest.param(
            b'{"Pod":{},"NodeNames":["nosuch"],"NodeNames":["%s"]}' % FREE_NODE.encode(),
            [FREE_NODE],
            id="the last of two lists of names counts",
        ),
        pytest.param(
            b'{"Pod":{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"9","nvidia.com/gpu":"8"}}}]}},'
            b'"NodeNames":["%s"]}' % FREE_NODE.encode(),
            [FREE_NODE],
            id="the last of two quantities counts",
        ),
        pytest.param(
            b'{"Pod":{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1"}}}]}},"Pod":{},'
            b'"NodeNames":["nosuch"]}',
            ["nosuch"],
            id="the last of two pods counts",
        ),
        pytest.param(
            b'{"Pod":{"spec":{"x":%s,"terminationGracePeriodSeconds":-1e400}},"NodeNames":["n"],"Future":[{}]}'
            % (b"9" * 100_000),
            ["n"],
            id="huge numbers in unknown fields are skipped",
        ),
    ],
)
def test_json_is_read_as_go_reads_it(server: Product, body: bytes, fits: list[str]) -> None:
    reply = server.post("filter", body)
    assert filtered(reply) == (fits, {})
    assert server.logged() == []


def test_a_thousand_nodes_leave_no_line_each(server: Product) -> None:
    names = [*NAMES, *(f"node-{n:04}" for n in range(1000))]
    lines = len(server.lines)
    with connect(server.api) as sock:
        for _ in range(100):
            assert call(sock, request("/filter", names_body(ONE_GPU, names))).status == 200
            assert call(sock, request("/prioritize", names_body(ONE_GPU, names[:100]))).status == 200
    assert server.logged() == []
    assert len(server.lines) - lines == 1
