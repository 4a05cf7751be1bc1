"""Bodies that a real kube-scheduler 1.36 sent, and the exact answers on the inventory beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects
from tests.extender.preempting import until

GOLDEN = Path(__file__).parents[1] / "golden"
KEYS = ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]
SHORT = "Insufficient nvidia.com/gpu per device"
SICK = "node(s) had unhealthy GPUs"
CHANGING = "node(s) had a GPU change in progress"

# case -> (nodes that fit, in the order of the request; other nodes with reasons)
FILTERED: dict[str, tuple[str, dict[str, str]]] = {
    "cache-01-gpu1": (
        "gpu-node-01 gpu-node-03 gpu-node-05 gpu-node-04 mig-node-08 gpu-node-00 gpu-node-07",
        {"gpu-node-02": SHORT, "gpu-node-06": CHANGING, "mig-node-09": SHORT},
    ),
    "cache-02-gpu8": (
        "gpu-node-00 gpu-node-04",
        {
            "gpu-node-01": SHORT,
            "gpu-node-02": SHORT,
            "gpu-node-03": SICK,
            "gpu-node-05": SHORT,
            "gpu-node-06": CHANGING,
        },
    ),
    "cache-03-mig-1g": ("mig-node-08 mig-node-09", {}),
    # Resources of another owner: the pod requests no GPU, so every node fits.
    "cache-04-mem-ignored": (
        "cpu-node-00 gpu-node-00 gpu-node-02 gpu-node-01 gpu-node-03 gpu-node-05 gpu-node-04 gpu-node-06 "
        "mig-node-08 gpu-node-07 mig-node-09",
        {},
    ),
    "cache-06-single-feasible": ("gpu-node-07", {}),
    "cache-08-default-profile": (
        "gpu-node-00 gpu-node-01 gpu-node-03 gpu-node-05 gpu-node-04 mig-node-08 gpu-node-07",
        {"gpu-node-02": SHORT},
    ),
    "cache-11-preempt": ("gpu-node-04", {}),
    # The labels in the request count: those of gpu-node-06 end its change.
    "full-01-gpu1": (
        "gpu-node-00 gpu-node-03 gpu-node-05 gpu-node-04 gpu-node-06 mig-node-08 gpu-node-07 gpu-node-01",
        {"gpu-node-02": SHORT, "mig-node-09": SHORT},
    ),
    "full-03-mig-1g": ("mig-node-08 mig-node-09", {}),
    "full-11-preempt": ("gpu-node-07", {}),
}

# case -> points by node. For one GPU: weights 0.1 fragmentation, 0.02 whole-gpus, 0.03 tightness, 0.03
# node-scarcity, 0.2 health, over 0.38, in steps of 0.0015 / 0.38:
# gpu-node-01, 5 free of 8: 0.1 * 0.5625 + 0.02 + 0.03 * 0.75 + 0.03 + 0.2 = 0.329 -> 0.865, the best
# gpu-node-05, 6 free of 8: 0.857, 2 steps below
# mig-node-08, 4 whole:     0.1 * 0.375 + 0.02 * 0.667 + 0.03 * 0.8125 + 0.03 + 0.2 = 0.305 -> 0.803, 15
# gpu-node-03, a sick one:  0.1 * 0.5625 + 0.02 + 0.03 * 0.625 + 0.03 + 0.2 * 7/8 = 0.300 -> 0.790, 19
# gpu-node-00, all free:    0.1 * 0.0625 + 0 + 0.03 * 0.5625 + 0.03 + 0.2 = 0.253 -> 0.666, 50, the worst
# In full-01 gpu-node-05 has another uid, so only its labels count, and it is the worst by far.
POINTS: dict[str, dict[str, int]] = {
    "cache-01-gpu1": {"gpu-node-01": 10, "gpu-node-03": 2, "gpu-node-05": 7, "mig-node-08": 5},
    "cache-02-gpu8": {"gpu-node-00": 10, "gpu-node-04": 10},
    "cache-03-mig-1g": {"mig-node-09": 10},
    "cache-04-mem-ignored": {f"gpu-node-0{i}": 10 for i in range(8)}
    | {"mig-node-08": 10, "mig-node-09": 10, "cpu-node-00": 10},
    "cache-08-default-profile": {"gpu-node-01": 10, "gpu-node-03": 2, "gpu-node-05": 7, "mig-node-08": 5},
    "full-01-gpu1": {
        "gpu-node-00": 2,
        "gpu-node-01": 10,
        "gpu-node-03": 5,
        "gpu-node-04": 2,
        "gpu-node-06": 2,
        "gpu-node-07": 2,
        "mig-node-08": 7,
    },
    "full-03-mig-1g": {"mig-node-09": 10},
}


def cases(verb: str) -> list[str]:
    return sorted(path.name.removesuffix(f".{verb}.json") for path in GOLDEN.glob(f"*.{verb}.json"))


@pytest.fixture(scope="module")
def extender() -> Extender:
    config = Configuration()
    built = Extender(config)
    objects = read_objects((GOLDEN / "inventory.yaml").read_bytes())
    built.replace_nodes(assemble(objects, config.resource_names()).values())
    return built


def sent(case: str, verb: str) -> tuple[bytes, list[str]]:
    """A body and its node names, in order."""
    body = (GOLDEN / f"{case}.{verb}.json").read_bytes()
    request = json.loads(body)
    nodes = request["Nodes"]
    return body, request["NodeNames"] if nodes is None else [n["metadata"]["name"] for n in nodes["items"]]


def test_every_body_has_its_answer_here() -> None:
    assert cases("filter") == sorted(FILTERED)
    assert cases("prioritize") == sorted(POINTS)


@pytest.mark.parametrize("case", cases("filter"))
def test_filter(extender: Extender, case: str) -> None:
    body, names = sent(case, "filter")
    fitting, refused = FILTERED[case]
    answer = extender.filter(body, until())
    reply: dict[str, Any] = json.loads(answer.body)
    assert list(reply) == KEYS
    assert (reply["FailedNodes"], reply["Error"]) == ({}, "")
    assert reply["FailedAndUnresolvableNodes"] == refused
    if case.startswith("cache"):
        assert reply["Nodes"] is None
        assert reply["NodeNames"] == fitting.split()
        assert answer.body.startswith(b'{"Nodes":null,"NodeNames":["')
    else:
        assert reply["NodeNames"] is None
        assert list(reply["Nodes"]) == ["items"]
        assert [node["metadata"]["name"] for node in reply["Nodes"]["items"]] == fitting.split()
        assert answer.body.startswith(b'{"Nodes":{"items":[{"metadata":{')
    assert b'"FailedNodes":{},"FailedAndUnresolvableNodes":{' in answer.body
    assert answer.body.endswith(b'},"Error":""}')
    assert (answer.nodes_in, answer.nodes_out) == (len(names), len(fitting.split()))
    assert sum(answer.rejected.values()) == len(refused)


@pytest.mark.parametrize("case", [case for case in cases("filter") if case.startswith("full")])
def test_nodes_go_back_byte_for_byte(extender: Extender, case: str) -> None:
    body, _ = sent(case, "filter")
    reply = extender.filter(body, until()).body
    for node in json.loads(body)["Nodes"]["items"]:
        raw = json.dumps(node, separators=(",", ":"), ensure_ascii=False).encode()
        assert raw in body
        assert (raw in reply) is (node["metadata"]["name"] in FILTERED[case][0].split())


@pytest.mark.parametrize("case", cases("prioritize"))
def test_prioritize(extender: Extender, case: str) -> None:
    body, names = sent(case, "prioritize")
    answer = extender.prioritize(body, until())
    expected = [{"Host": name, "Score": POINTS[case].get(name, 0)} for name in names]
    assert json.loads(answer.body) == expected
    assert answer.body == json.dumps(expected, separators=(",", ":")).encode()


def test_nodes_that_filter_returned_get_the_same_scores_alone(extender: Extender) -> None:
    body, _ = sent("cache-01-gpu1", "prioritize")
    fitting = FILTERED["cache-01-gpu1"][0].split()
    alone = json.dumps(json.loads(body) | {"NodeNames": fitting}).encode()
    scores = json.loads(extender.prioritize(alone, until()).body)
    assert scores == [{"Host": name, "Score": POINTS["cache-01-gpu1"].get(name, 0)} for name in fitting]
