"""Very large requests, and names of megabytes: answered or cleanly refused, and never written to the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.kube_objects import ANNOTATION, Json, names_body, node, nodes_body, pod
from tests.server.process.product import FREE_NODE, GOOD, ONE_GPU, WHOLE, Product, assert_well, config_file
from tests.server.process.server_process import Reply, call, connect, request

pytestmark = pytest.mark.process

HUGE = "n" * 10_000_000
# Created by the test that sends it: all of them together are large.
Body = Callable[[], bytes]
INVALID = "pod's GPU request is invalid"
UNKNOWN = "node(s) had no fresh GPU inventory"
LABELS = {"nvidia.com/gpu.product": HUGE, "nvidia.com/gpu.count": "8"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    # Answers count here, not the time that a busy machine takes for 5,000 Nodes.
    config = config_file(
        tmp_path_factory.mktemp("sizes"), server={"readTimeout": "60s", "writeTimeout": "60s"}
    )
    with Product(config=config) as process:
        yield process.ready()


def one_gpu(name: str = "p", container: str = "main", **metadata: Any) -> Json:
    limits = {"limits": {WHOLE: "1"}}
    return {
        "metadata": {"name": name} | metadata,
        "spec": {"containers": [{"name": container, "resources": limits}]},
    }


def test_a_hundred_thousand_names_of_253_bytes_are_answered(server: Product) -> None:
    names = [f"{n:06d}".ljust(253, "n") for n in range(99_999)] + [FREE_NODE]
    body = names_body(ONE_GPU, names)
    with connect(server.api) as sock:
        reply = call(sock, request("/filter", body))
        assert reply.status == 200
        result = reply.json()
        assert result["NodeNames"] == [FREE_NODE]
        assert list(result["FailedAndUnresolvableNodes"]) == names[:-1]
        assert set(result["FailedAndUnresolvableNodes"].values()) == {UNKNOWN}
        scores = call(sock, request("/prioritize", body)).json()
        assert [score["Host"] for score in scores] == names
        assert [score for score in scores if score["Score"]] == [{"Host": FREE_NODE, "Score": 10}]
        assert_well(call(sock, request("/filter", GOOD)))
    assert server.logged() == []


@pytest.mark.parametrize(
    ("body", "left", "refused"),
    [
        pytest.param(lambda: names_body(one_gpu(name=HUGE), [FREE_NODE]), [FREE_NODE], {}, id="of a pod"),
        pytest.param(
            lambda: names_body(one_gpu(namespace=HUGE), [FREE_NODE]), [FREE_NODE], {}, id="of a namespace"
        ),
        pytest.param(
            lambda: names_body(one_gpu(container=HUGE), [FREE_NODE]), [FREE_NODE], {}, id="of a container"
        ),
        pytest.param(
            lambda: names_body(ONE_GPU, [HUGE, FREE_NODE]),
            [FREE_NODE],
            {HUGE: UNKNOWN},
            id="of an unknown node",
        ),
        pytest.param(
            lambda: names_body(one_gpu(annotations={HUGE: "x"}), [FREE_NODE]),
            [FREE_NODE],
            {},
            id="of an annotation",
        ),
        pytest.param(
            lambda: names_body(one_gpu(labels={"app": HUGE}), [FREE_NODE]),
            [FREE_NODE],
            {},
            id="as a label's value",
        ),
        pytest.param(
            lambda: json.dumps({"Pod": one_gpu(), "NodeNames": [FREE_NODE], HUGE: {HUGE: None}}).encode(),
            [FREE_NODE],
            {},
            id="of an unknown field",
        ),
    ],
)
def test_names_of_ten_megabytes_are_names_like_others(
    server: Product, body: Body, left: list[str], refused: dict[str, str]
) -> None:
    reply = answered(server, body())
    assert reply.status == 200
    assert reply.json()["NodeNames"] == left
    assert reply.json()["FailedAndUnresolvableNodes"] == refused
    assert server.logged() == []


@pytest.mark.parametrize(
    ("asking", "told"),
    [
        pytest.param(pod(HUGE, {WHOLE: "-1"}), "is negative", id="of a pod that cannot be meant"),
        pytest.param(
            one_gpu(annotations={ANNOTATION + "model": HUGE}), "10000000 characters", id="as a model"
        ),
        pytest.param(
            one_gpu(annotations={ANNOTATION + "strategy": HUGE}), "10000000 characters", id="as a strategy"
        ),
        pytest.param(pod("p", {WHOLE: "1" * 10_000_000}), "10000000 characters", id="as a quantity"),
        pytest.param(
            pod("p", {"nvidia.com/mig-" + HUGE: "1"}), "resource 'nvidia.com/mig-nnn", id="as a MIG profile"
        ),
    ],
)
def test_a_wish_of_ten_megabytes_is_the_pods_fault_in_one_short_line(
    server: Product, asking: Json, told: str
) -> None:
    reply = answered(server, names_body(asking, [FREE_NODE]))
    assert reply.status == 200
    assert reply.json()["FailedAndUnresolvableNodes"] == {FREE_NODE: INVALID}
    (line,) = server.logged()
    assert told in line
    assert len(line) < 600


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param(
            lambda: names_body(pod("p", {"nvidia.com/mig-" + HUGE: []}), [FREE_NODE]),
            "Pod.spec: container 'main': nvidia.com/mig-nnn",
            id="of a resource",
        ),
        pytest.param(
            lambda: nodes_body(ONE_GPU, [node("a", {"nvidia.com/mig-" + HUGE: []})]),
            "Nodes.items[0].status: nvidia.com/mig-nnn",
            id="of a node's resource",
        ),
        pytest.param(
            lambda: nodes_body(ONE_GPU, [node("a", {WHOLE: HUGE})]),
            "Nodes.items[0].status: ",
            id="as a node's amount",
        ),
        pytest.param(
            lambda: names_body({"metadata": {"labels": {HUGE: {}}}}, [FREE_NODE]),
            "Pod.metadata.labels[...]",
            id="of a label",
        ),
        pytest.param(
            lambda: names_body({"spec": {"priority": HUGE}}, [FREE_NODE]),
            "Pod.spec.priority",
            id="as a priority",
        ),
        pytest.param(lambda: json.dumps(HUGE).encode(), "body: Expected `object`", id="as the request"),
    ],
)
def test_an_unreadable_request_is_refused_in_a_short_message(server: Product, body: Body, told: str) -> None:
    reply = answered(server, body())
    assert reply.status == 400
    assert reply.json()["error"].startswith(told)
    assert len(reply.body) < 600
    (line,) = server.logged()
    assert len(line) < 700


def test_a_node_with_labels_of_megabytes_goes_back_as_it_came(server: Product) -> None:
    sent = node("a", {WHOLE: "8"}, labels=LABELS)
    reply = answered(server, nodes_body(ONE_GPU, [sent]))
    assert reply.json()["Nodes"] == {"items": [sent]}
    assert server.logged() == []


def test_a_full_body_of_many_nodes_is_answered(server: Product) -> None:
    sent = [
        node(f"node-{n}", {WHOLE: "8"}, labels={"nvidia.com/gpu.product": "NVIDIA-L4"}) for n in range(5000)
    ]
    reply = answered(server, nodes_body(ONE_GPU, sent))
    assert reply.status == 200
    assert len(reply.json()["Nodes"]["items"]) == 100
    assert reply.json()["FailedAndUnresolvableNodes"] == {}


def answered(server: Product, body: bytes) -> Reply:
    """The reply to filter on a connection that stays, whether it is a refusal or not."""
    with connect(server.api, timeout_s=60) as sock:
        reply = call(sock, request("/filter", body))
        assert reply.headers["connection"] == "keep-alive"
        assert_well(call(sock, request("/filter", GOOD)))
    return reply
