"""nodeCacheCapable false: kube-scheduler sends whole Node objects, with the same results."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_ext.core.cycle.cycle import BEST_POINTS
from tests.e2e.cluster.api import Json
from tests.e2e.cluster.proxy import Call, Proxy, running_proxy
from tests.e2e.installation import Installation
from tests.e2e.second_scheduler import running_scheduler
from tests.e2e.test_placement import mixed_cluster
from tests.e2e.workload import Workload
from tests.kube_objects import ANNOTATION

Way = tuple[str, Proxy]


@pytest.fixture(scope="module")
def ways(installation: Installation) -> Iterator[tuple[Way, Way]]:
    """Two schedulers, each through its own proxy to the same extender: by names, by whole nodes."""
    extender = installation.extender_url(installation.pods()[0])
    plane = installation.plane
    with (
        running_proxy(extender) as by_name,
        running_proxy(extender) as by_node,
        running_scheduler(plane, by_name.url) as names,
        running_scheduler(plane, by_node.url, nodeCacheCapable=False) as nodes,
    ):
        yield (names, by_name), (nodes, by_node)


def scores(call: Call) -> dict[str, int]:
    return {each["Host"]: each["Score"] for each in call.reply}


def asked(call: Call) -> set[str]:
    """The nodes a filter request names, in either form."""
    if call.request["NodeNames"] is not None:
        return set(call.request["NodeNames"])
    return {node["metadata"]["name"] for node in call.request["Nodes"]["items"]}


def passed(call: Call) -> set[str]:
    """The nodes a filter reply keeps, in either form."""
    if call.reply["NodeNames"] is not None:
        return set(call.reply["NodeNames"])
    return {node["metadata"]["name"] for node in call.reply["Nodes"]["items"]}


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        pytest.param({"nvidia.com/gpu": "1"}, {}, id="a whole GPU"),
        pytest.param({"nvidia.com/mig-3g.40gb": "1"}, {}, id="a MIG instance"),
        pytest.param({"nvidia.com/gpu": "1"}, {"model": "B200"}, id="what fits nowhere"),
    ],
)
def test_same_nodes_reasons_and_scores(
    workload: Workload, ways: tuple[Way, Way], limits: Json, annotations: Json
) -> None:
    mixed_cluster(workload)
    workload.publish()
    seen = []
    for scheduler, proxy in ways:
        proxy.calls.clear()
        wishes = {f"{ANNOTATION}{key}": value for key, value in annotations.items()}
        pod = workload.pod(limits, annotations=wishes, scheduler=scheduler)
        fits = workload.installation.explain(pod)["fits"]
        name = workload.create(pod)
        if fits:
            node = workload.await_node(name)
            text = None
            workload.remove(name)
        else:
            node = None
            text = workload.await_event(name, "FailedScheduling")["note"]
        (first, *_) = proxy.of("filter")
        ranked = [scores(call) for call in proxy.of("prioritize")[:1]]
        refused = first.reply["FailedAndUnresolvableNodes"]
        assert refused.keys() == asked(first) - passed(first)
        assert not first.reply["FailedNodes"], "kube-scheduler would look for victims there"
        seen.append((node, text, passed(first), refused, ranked))
    (_, by_name), (_, by_node) = ways
    assert by_name.of("filter")[0].request["NodeNames"] is not None
    assert by_node.of("filter")[0].request["Nodes"]["items"]
    (node_1, *decision_1), (node_2, *decision_2) = seen
    assert decision_1 == decision_2
    # The extender's forecast knows the pods of earlier tests, and the command `explain` does not.
    best = {name for points in ranked for name, score in points.items() if score == BEST_POINTS}
    assert ({node_1, node_2} - {None}) <= (best or passed(first))
