"""The real Karpenter beside the product: it buys the nodes that pods need, and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.autoscaler.market import Market, open_market, overlay
from tests.e2e.autoscaler.node_groups import (
    CAPACITY_TYPE,
    MIG,
    NODE_POOL,
    ON_DEMAND,
    SHARES,
    SPOT,
    Machine,
    NodeGroup,
)
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.installation import MANIFESTS
from tests.e2e.shares.share_workload import ShareWorkload
from tests.e2e.workload import MIG_HALF
from tests.held import DEVICES
from tests.kube_objects import ANNOTATION, SHARE, holder

pytestmark = pytest.mark.release

GPU = "nvidia.com/gpu"
T4 = Machine("g-t4-1", "T4", 1, 0.5)
A100 = Machine("g-a100-2", "A100-80GB", 2, 8.0)
H100 = Machine("g-h100-4", "H100-80GB", 4, 40.0)
GROUPS = {
    group.name: group
    for group in (
        NodeGroup("t4", T4),
        NodeGroup("a100", A100, capacity_type=ON_DEMAND),
        NodeGroup("a100-spot", A100),
        NodeGroup("h100", H100),
        NodeGroup("mig", A100, MIG),
        NodeGroup("shares", A100, SHARES),
    )
}
# Of those that the pods of `mixed` need at least, by group.
NEEDED = {"t4": 3, "a100": 2, "a100-spot": 1, "h100": 1, "mig": 1, "shares": 2}
# Karpenter looks at waiting pods again every 10 s, and at empty nodes 20 s after their last pod.
PLACEHOLDERS = "/apis/batch/v1/namespaces/gpu-scheduler-placeholders/jobs"
SICKNESS = "node(s) had unhealthy GPUs"
MEMORY = "Insufficient GPU memory on one device"
WISH = "node(s) didn't match the requested GPU model"
SICK = {"state": "Unhealthy", "reason": "XID 79"}


def model(name: str) -> dict[str, str]:
    """A nodeSelector for a model, which Karpenter understands, or an annotation."""
    return {f"{ANNOTATION}model": name}


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Market]:
    with open_market(tmp_path_factory.mktemp("karpenter"), GROUPS) as market:
        yield market


@pytest.fixture
def model_affinity(market: Market) -> Iterator[None]:
    """The component of that name, for a test."""
    kubectl = market.installation.plane.kubectl
    policy = MANIFESTS / "components" / "model-affinity" / "policy.yaml"
    kubectl("apply", "--server-side", "-f", policy)
    with ShareWorkload(market.installation) as workload:
        tried = workload.pod({GPU: "1"}, annotations=model("T4"))
        path = f"/api/v1/namespaces/{workload.namespace}/pods?dryRun=All"
        eventually(lambda: "affinity" in market.api.create(path, tried)["spec"], "the policy works")
    yield
    kubectl("delete", "-f", policy)


@pytest.mark.usefixtures("model_affinity")
def test_from_zero_nodes_an_annotation_alone_buys_a_node_of_the_model(market: Market) -> None:
    with ShareWorkload(market.installation) as workload:
        names = ("H100", "a100", "A100-80GB")
        pods = [workload.pod({GPU: "1"}, annotations=model(name)) for name in names]
        market.run_all(workload, pods)
        bought = market.bought()
    market.clear()
    assert bought == {"h100": 1, "a100-spot": 1}


@pytest.fixture(scope="module")
def stocked(market: Market) -> Iterator[Counter[str]]:
    """Pods of all kinds that arrived on a cluster without GPU nodes, and the nodes that were bought."""
    with ShareWorkload(market.installation) as workload:
        market.run_all(workload, mixed(workload))
        yield market.bought()
    market.clear()


@pytest.fixture
def workload(market: Market, stocked: Counter[str]) -> Iterator[ShareWorkload]:
    """Further pods; nodes that were bought for them are returned."""
    before = market.claims()
    with ShareWorkload(market.installation) as workload:
        yield workload
    market.clear(before)


def asking(workload: ShareWorkload, count: int, cpu: int, limits: Json, **node_selector: str) -> list[Json]:
    """Equal pods. As usual, those for larger GPUs request more CPU, and Karpenter packs them first."""
    resources = {"limits": limits, "requests": {"cpu": str(cpu)}}
    container = {"name": "main", "image": "train:1", "resources": resources}
    return [workload.pod(containers=[container], nodeSelector=node_selector) for _ in range(count)]


def mixed(workload: ShareWorkload) -> list[Json]:
    """Pods for all groups."""
    spot, on_demand = {CAPACITY_TYPE: SPOT}, {CAPACITY_TYPE: ON_DEMAND}
    return [
        *asking(workload, 3, 2, {GPU: "1"}, **model("T4")),
        *asking(workload, 4, 6, {GPU: "1"}, **model("A100-80GB"), **on_demand),
        # The machines of `mig` and `shares` have such GPUs as well, and hand out none of them whole.
        *asking(workload, 2, 7, {GPU: "1"}, **model("A100-80GB"), **spot),
        *asking(workload, 2, 12, {GPU: "2"}, **model("H100-80GB")),
        *asking(workload, 2, 4, {MIG_HALF: "1"}),
        *asking(workload, 1, 8, {MIG_HALF: "2"}),
        *asking(workload, 6, 2, {SHARE: "30000"}),
    ]


def test_from_zero_nodes_every_pod_runs_and_no_node_is_bought_in_vain(
    market: Market, stocked: Counter[str]
) -> None:
    assert stocked.keys() == NEEDED.keys()
    assert stocked.total() <= sum(NEEDED.values()) + 1, stocked
    nodes = [each["metadata"]["labels"] for each in market.api.items("/api/v1/nodes")]
    bought = {(each[NODE_POOL], each[CAPACITY_TYPE]) for each in nodes if NODE_POOL in each}
    assert bought == {(group.name, group.capacity_type) for group in GROUPS.values()}


def test_pods_that_arrive_while_a_node_starts_wait_for_it(market: Market, workload: ShareWorkload) -> None:
    before = market.claims()
    pods = asking(workload, 4, 4, {GPU: "1"}, **model("H100-80GB"))
    workload.create(pods[0])
    eventually(lambda: market.bought(before), "a node is bought")
    market.run_all(workload, pods[1:])
    assert market.bought(before) == {"h100": 1}


def make_gpus_sick(market: Market, workload: ShareWorkload) -> None:
    """Buy an H100 node whose two free GPUs become sick, of which its device plugin knows nothing."""
    (pod,) = asking(workload, 1, 20, {GPU: "2"}, **model("H100-80GB"))
    (name,) = market.run_all(workload, [pod])
    node = workload.await_node(name)
    for index in (0, 1):
        market.change(node, index, holders=[holder(name, workload.namespace)])
    for index in (2, 3):
        market.change(node, index, health=SICK)


def nodes_of(market: Market, group: str) -> list[str]:
    nodes = market.api.items("/api/v1/nodes", labelSelector=f"{NODE_POOL}={group}")
    return [each["metadata"]["name"] for each in nodes]


def use_memory_unaccounted(market: Market) -> None:
    """On each GPU without shares, processes of no pod use memory."""
    pods = market.api.items("/api/v1/pods")
    shared = {pod["metadata"].get("annotations", {}).get(f"{DEVICES}main") for pod in pods}
    used = {"totalMiB": 81920, "usedMiB": 60000, "unaccountedMiB": 60000}
    for node in nodes_of(market, "shares"):
        for device in GROUPS["shares"].devices(node):
            if device["uuid"] not in shared:
                market.change(node, device["index"], memory=used)


def refused_pods(market: Market, workload: ShareWorkload) -> dict[str, str]:
    """Pods that the extender alone refuses, by the reason. New nodes would take them."""
    installation = market.installation
    make_gpus_sick(market, workload)
    use_memory_unaccounted(market)
    pods = {
        SICKNESS: workload.pod({GPU: "1"}, nodeSelector=model("H100-80GB")),
        # Less than a node has left where each has three of the six shares, and more than any GPU has.
        MEMORY: workload.share(50000),
        WISH: workload.pod({GPU: "1"}, annotations=model("A100-80GB")),
    }
    for reason, group in ((SICKNESS, "h100"), (MEMORY, "shares")):
        # A pod that is judged before the change is known would be bound.
        known = partial(installation.refuses, pods[reason], nodes_of(market, group))
        eventually(known, f"every extender knows: {reason}", 60.0)
    names = {reason: workload.create(pod) for reason, pod in pods.items()}

    for reason, name in names.items():
        eventually(
            lambda said=reason, each=name: said in workload.unscheduled(each).get("message", ""),  # type: ignore[misc]
            f"{name} is refused: {reason}",
            120.0,
        )
    return names


@pytest.fixture(scope="module")
def refused(market: Market, stocked: Counter[str]) -> Iterator[tuple[ShareWorkload, dict[str, str]]]:
    with ShareWorkload(market.installation) as workload:
        yield workload, refused_pods(market, workload)


def test_karpenter_expects_refused_pods_on_existing_nodes_and_buys_none_for_them(
    market: Market, refused: tuple[ShareWorkload, dict[str, str]]
) -> None:
    workload, names = refused
    before = market.claims()
    for name in names.values():
        expected = workload.await_event(name, "Nominated")
        assert expected["note"].startswith("Pod should schedule on: nodeclaim/")
    assert market.claims() == before
    assert market.waiting(workload, list(names.values())) == list(names.values())


def test_with_placeholders_karpenter_buys_one_right_node_for_each_refused_pod(
    market: Market, refused: tuple[ShareWorkload, dict[str, str]], tmp_path: Path
) -> None:
    """The last test of the module, because placeholders stay switched on."""
    workload, names = refused
    market.plugin_s = 12.0
    before = market.claims()
    market.installation.install(str(overlay(tmp_path / "placeholders", placeholders=True)))
    eventually(lambda: market.waiting(workload, list(names.values())) == [], "all pods run", 120)
    # The third pod wants another model than the nodes that refuse it: the A100 nodes are full.
    eventually(lambda: not market.api.items(PLACEHOLDERS), "no placeholder stays")
    assert market.bought(before) == {"h100": 1, "shares": 1, "a100-spot": 1}
