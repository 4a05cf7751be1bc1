"""GPUs in /metrics: by level of detail, with nothing lost between them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scheduler_ext.core.filters.model import Model
from scheduler_ext.core.gpu.gpu import Memory
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.request.request import GpuRequest, ShareRequest, UnitRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.explain.waiting import LongWait
from scheduler_ext.server.metrics import gpu_metrics
from scheduler_ext.server.metrics.gpu_metrics import FAMILIES, Detail, labels_of
from scheduler_ext.server.metrics.namespaces import MAX_NAMESPACES, OTHERS
from scheduler_ext.server.metrics.registry import Metrics
from scheduler_ext.sources.source_status import Check, SourceStatus
from scheduler_ext.views.node_usage import NodeUsage, node_usage
from scheduler_ext.wire.config import Configuration, MetricsSection
from scheduler_ext.wire.objects import assemble, read_objects
from tests.core.reported import device
from tests.core.reported import node as reported
from tests.kube_objects import gpu, gpu_node, inventory, node, pod
from tests.pages import SAMPLE
from tests.server.followed import Followed

DETAILS: tuple[Detail, ...] = get_args(Detail)
Labels = tuple[tuple[str, str], ...]


def sample() -> list[NodeInfo]:
    config = Configuration()
    return list(assemble(read_objects(SAMPLE.read_bytes()), config.resource_names()).values())


def scraped(metrics: Metrics) -> dict[str, dict[Labels, float]]:
    """Values by labels, by metric."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(b"".join(metrics.render()).decode()):
        for each in family.samples:
            found.setdefault(each.name, {})[tuple(sorted(each.labels.items()))] = each.value
    return found


def metrics_of(source: Followed, detail: Detail = "node") -> Metrics:
    return Metrics(source, Configuration(metrics=MetricsSection(detail=detail)))


def told(infos: Iterable[NodeInfo], detail: Detail = "node") -> dict[str, dict[Labels, float]]:
    """The metrics of an extender with these nodes."""
    source = Followed()
    source.set(infos)
    return scraped(metrics_of(source, detail))


def by_model(samples: dict[Labels, float]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for labels, value in samples.items():
        sums[dict(labels)["modelName"]] += int(value)
    return sums


def test_every_level_says_the_same_of_each_model() -> None:
    found = {detail: told(sample(), detail) for detail in DETAILS}
    for family in FAMILIES:
        sums = [by_model(found[detail].get(family.name, {})) for detail in DETAILS]
        assert sums[0] == sums[1] == sums[2], family.name
        assert sums[0] or family.sparse, family.name


def test_a_scrape_follows_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Followed()
    metrics = metrics_of(source)
    assert "gpu_extender_gpus" not in scraped(metrics)
    infos = sample()
    source.set(infos)
    before = scraped(metrics)["gpu_extender_gpus"]
    looked_at: list[str] = []

    def counted(node: Node, resources: ResourceNames, headroom_percent: int) -> NodeUsage:
        looked_at.append(node.info.name)
        return node_usage(node, resources, headroom_percent)

    monkeypatch.setattr(gpu_metrics, "node_usage", counted)
    metrics.render()
    assert looked_at == []
    gone, changed, *others = infos
    source.set([replace(changed, freshness="Missing"), *others])
    after = scraped(metrics)["gpu_extender_gpus"]
    assert looked_at == [changed.name]
    assert {dict(labels)["hostname"] for labels in before.keys() - after.keys()} == {gone.name, changed.name}


def test_a_name_with_quotes_is_one_label() -> None:
    name = 'a "b"\\\nc'
    text = f"m{labels_of(modelName=name)} 1\n"
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"modelName": name}


def test_fragmentation_is_of_unheld_amounts() -> None:
    found = told(sample(), "cluster")
    idle, lost = (found[name] for name in ("gpu_extender_gpus_unallocated", "gpu_extender_gpus_unusable"))
    assert idle[("modelName", "NVIDIA H100 80GB HBM3"),] == 11
    # Two have MIG, and one is unhealthy; two T4 are time-sliced.
    assert idle[("modelName", "NVIDIA A100-SXM4-80GB"),] == 2
    assert idle[("modelName", "Tesla T4"),] == 4
    assert all(0 <= lost[labels] <= idle[labels] for labels in idle)
    (ratio,) = found["gpu_extender_fragmentation_ratio"].values()
    assert ratio == pytest.approx(sum(lost.values()) / sum(idle.values()))
    assert 0 < ratio < 1


def test_namespaces_are_bounded() -> None:
    asked = GpuRequest(units=(UnitRequest("nvidia.com/gpu", 1),))
    pods = tuple(
        BoundPod(f"{number}", f"team-{number:05}", "p", 0, asked) for number in range(MAX_NAMESPACES + 7)
    )
    infos = [NodeInfo("n", pods=(*pods, replace(pods[-1], uid="more")))]
    found = told(infos)["gpu_extender_namespace_requested_gpus"]
    values = {dict(labels)["namespace"]: value for labels, value in found.items()}
    assert len(values) == MAX_NAMESPACES + 1
    assert (values[OTHERS], values[pods[-1].namespace]) == (7, 2)


def test_requested_shares_are_in_bytes() -> None:
    request = GpuRequest(shares=ShareRequest((("main", 300), ("other", 200))))
    infos = [NodeInfo("n", pods=(BoundPod("u", "team", "p", 0, request),))]
    found = told(infos)["gpu_extender_namespace_requested_memory_bytes"]
    assert found == {(("namespace", "team"),): 500 * 2**20}


def test_reservations_by_state() -> None:
    waiting = BoundPod("u", "ns", "p", 0, GpuRequest(units=(UnitRequest("nvidia.com/gpu", 1),)))
    held = [replace(waiting, uid=uid) for uid in ("a", "b", "c")]
    source = Followed()
    # For one of them another extender chose another GPU: either may come true.
    source.set([NodeInfo("n", pods=(*held, held[0]), assumed=frozenset("a"), nominated=(waiting,))])
    metrics = metrics_of(source)
    found = scraped(metrics)["gpu_extender_reservations"]
    assert found == {(("state", "Assumed"),): 1, (("state", "Confirmed"),): 2, (("state", "Nominated"),): 1}
    source.set([])
    assert set(scraped(metrics)["gpu_extender_reservations"].values()) == {0}


def test_pending_pods_are_asked_for_at_every_scrape() -> None:
    waiting = {"Insufficient GPU memory on one device": 2}
    metrics = Metrics(Followed(), Configuration(), lambda: waiting)
    assert list(scraped(metrics)["gpu_extender_pending_pods"].values()) == [2]
    waiting["pod's GPU request is invalid"] = 1
    assert sorted(scraped(metrics)["gpu_extender_pending_pods"].values()) == [1, 2]


A100 = "NVIDIA A100-SXM4-80GB"


def test_a_missing_node_keeps_its_state_and_its_age_under_the_name_of_its_gpus() -> None:
    source = Followed()
    two = gpu_node("b", [gpu(0, product=A100), gpu(1, product=A100), gpu(2, product="Tesla T4")])
    objects = inventory(gpu_node("a", [gpu(0, product=A100)]), two, node("cpu"))
    a, b, cpu = assemble(read_objects(objects), ResourceNames()).values()
    source.set([replace(a, freshness="Missing"), replace(b, freshness="Stale"), cpu])
    source.tell(report_ages_s={"a": 700.04, "b": 200.0})
    metrics = metrics_of(source)

    def by_node(name: str) -> dict[tuple[str, ...], float]:
        return {tuple(dict(labels).values()): value for labels, value in scraped(metrics)[name].items()}

    states = by_node("gpu_extender_node_state")
    assert states == {("a", A100): 2, ("b", A100): 1, ("b", "Tesla T4"): 1}
    ages = by_node("gpu_extender_node_report_age_seconds")
    assert ages == {("a", A100): 700, ("b", A100): 200, ("b", "Tesla T4"): 200}
    source.tell(report_ages_s={"a": 701.0, "gone": 9.0})
    assert by_node("gpu_extender_node_report_age_seconds") == {("a", A100): 701}


def test_nodes_known_by_labels_and_nodes_that_never_reported_have_a_state() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.count": "2"}
    objects = read_objects(inventory(node("labels", {"nvidia.com/gpu": "2"}, labels=labels)))
    infos = [*assemble(objects, ResourceNames()).values(), NodeInfo("silent", freshness="Missing")]
    found = told(infos)["gpu_extender_node_state"]
    assert found == {
        (("hostname", "labels"), ("modelName", "L40S")): 0,
        (("hostname", "silent"), ("modelName", "")): 2,
    }


def test_nodes_that_take_pods_without_a_fresh_report_are_counted() -> None:
    """And their GPUs are, which would be left out otherwise."""
    before, *others = sample()
    missing = replace(before, freshness="Missing")
    found = []
    for info in (before, missing, replace(missing, by_allocatable=True)):
        metrics = told([info, *others])
        states = metrics["gpu_extender_inventory_nodes"]
        gpus = sum(metrics["gpu_extender_gpus"].values())
        found.append(
            (states[(("state", "Missing"),)], metrics["gpu_extender_nodes_by_allocatable"][()], gpus)
        )
    (_, _, gpus) = found[0]
    assert found == [(0, 0, gpus), (1, 0, gpus - len(before.devices)), (1, 1, gpus)]


@pytest.mark.parametrize("freshness", ["Fresh", "Missing"])
def test_nodes_that_an_administrator_keeps_the_agent_from_are_counted_by_state(freshness: str) -> None:
    kept, *others = sample()
    others[0] = replace(others[0], freshness="Missing")
    infos = [replace(kept, freshness=freshness, agent_label="keeps away"), *others]
    found = told(infos)["gpu_extender_nodes_kept_from_agent"]
    assert found == {(("state", state),): state == freshness for state in ("Fresh", "Stale", "Missing")}


def test_the_use_of_gpus_is_unknown_after_an_overdue_report() -> None:
    gpus = [
        gpu(0, holders=[{"namespace": "default", "name": "p"}]),
        gpu(1, memory={"totalMiB": 81920, "usedMiB": 9000, "unaccountedMiB": 9000}),
    ]
    objects = [
        gpu_node("n", gpus),
        node("n", {"nvidia.com/gpu": "2"}),
        pod("p", {"nvidia.com/gpu": "1"}, on="n"),
    ]
    info = assemble(read_objects(inventory(*objects)), ResourceNames())["n"]
    overdue_info = replace(info, freshness="Missing", by_allocatable=True)
    fresh, overdue = (told([each], "device") for each in (info, overdue_info))
    use = {f"gpu_extender_device_memory_{name}_bytes" for name in ("used", "unaccounted")}
    assert use <= fresh.keys()
    assert not use & overdue.keys()
    # The total memory stays, as do the GPUs.
    for name in (
        "gpu_extender_device_memory_total_bytes",
        "gpu_extender_gpus",
        "gpu_extender_gpus_allocated",
    ):
        assert fresh[name] == overdue[name]


def test_an_extender_is_ready_if_all_its_checks_pass() -> None:
    source = Followed()
    metrics = metrics_of(source)
    assert scraped(metrics)["gpu_extender_ready"] == {(): 1}
    source.tell(checks=[Check("inventory", True), Check("watch", False)])
    assert scraped(metrics)["gpu_extender_ready"] == {(): 0}


def test_only_nodes_of_shares_drift_from_what_was_promised() -> None:
    def using(used_mib: int, name: str, *, share_node: bool = True) -> NodeInfo:
        gpus = device(0, memory=Memory(80_000, 0, used_mib))
        return replace(reported(gpus, share_node=share_node), name=name)

    source = Followed()
    metrics = metrics_of(source)
    for infos, drift in (
        ([using(300, "n"), using(0, "m"), using(9, "whole", share_node=False)], {"n": 300, "m": 0}),
        ([using(500, "n"), NodeInfo("silent", share_node=True)], {"n": 500}),
    ):
        source.set(infos)
        found = scraped(metrics)["gpu_extender_ledger_drift_mib"]
        assert {dict(labels)["node"]: value for labels, value in found.items()} == drift


def test_the_pods_that_wait_longest_have_a_series_of_their_own() -> None:
    asked_at: list[float] = []

    def longest(wall_time: float) -> list[LongWait]:
        asked_at.append(wall_time)
        return [LongWait("team", "train-0", Model.reason.text, 3600.5)]

    before = time.time()
    found = scraped(Metrics(Followed(), Configuration(), longest=longest))["gpu_extender_waiting_pod_seconds"]
    labels = {"namespace": "team", "pod": "train-0", "reason": Model.reason.text}
    assert found == {tuple(sorted(labels.items())): 3600.5}
    assert before <= asked_at[0] <= time.time()


UNSEEN = "a\x1b[2J\x07\x9b31m\r\u2028\u202e\u200b\ufeff\x7f\x00\t"
SEEN = r"a\x1b[2J\x07\x9b31m\x0d\x2028\x202e\x200b\xfeff\x7f\x00\x09"


def test_control_characters_of_label_values_are_spelt_out() -> None:
    """In nodes and models, which are put together as text, and in namespaces, samples of a family."""
    one = {"uuid": "GPU-0", "index": 0, "model": f"T4{UNSEEN}", "memory": {"totalMiB": 81920}}
    holder = pod("p", {"nvidia.com/gpu": "1"}, on=f"n{UNSEEN}")
    holder["metadata"]["namespace"] = f"space{UNSEEN}"
    objects = inventory(gpu_node(f"n{UNSEEN}", [one]), node(f"n{UNSEEN}", {"nvidia.com/gpu": "1"}), holder)
    source = Followed()
    source.set(assemble(read_objects(objects), ResourceNames()).values())
    metrics = metrics_of(source)
    text = b"".join(metrics.render()).decode()
    lines = text.split("\n")
    assert all(line.isprintable() for line in lines)
    # The exposition still parses, and no label value changed into another.
    found = scraped(metrics)
    values = {value for samples in found.values() for labels in samples for _, value in labels}
    assert {f"T4{SEEN}", f"space{SEEN}", f"n{SEEN}"} <= values


class Slow(Followed):
    """A source whose status a test holds back."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.begun = threading.Event()

    def status(self) -> SourceStatus:
        self.begun.set()
        self.go_on.wait(30)
        self.tell(age_s=self.told.age_s + 1)
        return self.told


def test_scrapes_that_wait_for_each_other_share_one_text() -> None:
    source = Slow()
    source.set(sample())
    metrics = metrics_of(source)
    texts: list[tuple[bytes, bytes]] = []
    asked_at = time.monotonic()
    first = threading.Thread(target=lambda: texts.append(metrics.render(asked_at)))
    first.start()
    assert source.begun.wait(30)
    # These arrive while the first text is built, which may be older than they are.
    asked_at = time.monotonic()
    others = [threading.Thread(target=lambda: texts.append(metrics.render(asked_at))) for _ in range(8)]
    for other in others:
        other.start()
    source.go_on.set()
    for thread in (first, *others):
        thread.join()
    assert len({id(head) for head, _ in texts}) == 2
    # One for all nodes, because no node changed.
    assert len({id(nodes) for _, nodes in texts}) == 1


def test_a_scrape_is_no_older_than_its_request() -> None:
    source = Followed()
    source.set(sample())
    metrics = metrics_of(source)
    before = time.monotonic()
    old = metrics.render(before)
    assert metrics.render(before) == old
    source.set([])
    assert metrics.render(before) == old
    assert b"hostname" not in b"".join(metrics.render(time.monotonic()))
