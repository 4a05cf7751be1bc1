"""The benchmark of filter's two extremes: the requests of its pods, its counts, and wrong answers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.busy_cluster import ASKS, CASES, node_names, pods, write_busy_cluster
from benchmarks.connection import Connection
from benchmarks.filtering import ask, figures, measure_other, measure_own, requests, table
from benchmarks.processes import ProcessError, extender_command, running_server

NODES = 4


pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    inventory = tmp_path_factory.mktemp("filtering") / "inventory.json"
    write_busy_cluster(inventory, NODES, 1)
    with running_server(extender_command(inventory), "api") as served:
        yield served


def some(case: str, asks: str, count: int = 40) -> list[dict[str, Any]]:
    return [json.loads(pod) for pod in itertools.islice(pods(case, asks, 1), count)]


def asked(pod: dict[str, Any]) -> str:
    limits = [container["resources"]["limits"] for container in pod["spec"]["containers"]]
    wishes = {
        key: value for key, value in pod["metadata"]["annotations"].items() if "gpu.scheduler-ext" in key
    }
    return json.dumps([limits, wishes])


def other_end(case: str) -> str:
    (other,) = set(CASES) - {case}
    return other


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("asks", "kinds"), [("different", 40), ("alike", 1)])
def test_pods_differ_in_their_requests_or_only_in_their_names(case: str, asks: str, kinds: int) -> None:
    made = some(case, asks)
    assert len({pod["metadata"]["uid"] for pod in made}) == 40
    assert len({asked(pod) for pod in made}) == kinds


def test_names_come_in_another_order_each_time() -> None:
    bodies = requests(node_names(9), pods("fits", "alike", 1), 1)
    first, second = (json.loads(body)["NodeNames"] for body in itertools.islice(bodies, 2))
    assert first != second
    assert sorted(first) == sorted(second) == sorted(node_names(9))


@pytest.mark.parametrize("asks", ASKS)
@pytest.mark.parametrize("case", CASES)
def test_an_answer_of_the_other_end_ends_the_measurement(url: str, case: str, asks: str) -> None:
    connection = Connection(url)
    bodies = list(itertools.islice(requests(node_names(NODES), pods(case, asks, 1), 1), 6))
    assert len(ask(connection, "/filter", iter(bodies), case)) == 6
    assert connection.connects == 1
    with pytest.raises(ProcessError, match="nodes were returned"):
        ask(connection, "/filter", iter(bodies), other_end(case))
    connection.close()


@pytest.mark.parametrize("body", [b"{", b"[]"])
def test_a_refused_request_ends_the_measurement(url: str, body: bytes) -> None:
    connection = Connection(url)
    with pytest.raises(ProcessError, match=r"^filter: 4"):
        ask(connection, "/filter", iter([body]), None)
    connection.close()


def test_figures_are_medians_over_rounds_so_that_one_bad_round_does_not_count() -> None:
    good = [1_000] * 98 + [5_000] * 2
    assert figures([good, [900_000] * 100, good]) == {"p50Us": 1.0, "p99Us": 5.0}


def test_every_end_has_a_row() -> None:
    rows = measure_own(NODES, 2, 3)
    assert [(row["nodes"], row["case"], row["asks"]) for row in rows] == [
        (NODES, case, asks) for case in CASES for asks in ASKS
    ]
    assert all(0 < row["p50Us"] <= row["p99Us"] for row in rows)
    assert table(rows).count("\n") == len(rows)


def test_another_extender_is_driven_by_a_pod_and_names(url: str) -> None:
    pod = json.dumps(some("fits", "alike", 1)[0], indent=1).encode()
    row = measure_other(url, pod, node_names(NODES), 1, 3)
    assert (row["nodes"], row["url"]) == (NODES, url)
    assert 0 < row["p50Us"] <= row["p99Us"]


def test_a_server_that_is_no_extender_is_reported(url: str) -> None:
    with pytest.raises(ProcessError, match=r"^filter: 404"):
        measure_other(f"{url}/elsewhere", b"{}", ["a"], 1, 1)
