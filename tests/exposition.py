"""Every metric with all its labels, as in a scrape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import kubernetes.client
import msgspec
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from scheduler_ext.binding.binder import Binder
from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.binding_calls import Bindings
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.events.inventory_events import ReportProblems
from scheduler_ext.cluster.inventory.budget_handler import BudgetHandler
from scheduler_ext.cluster.live import LiveInventory
from scheduler_ext.cluster.reflector import Reflector
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.filters import REASONS
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import BoundPod, NodeInfo, PendingPod
from scheduler_ext.core.request.request import GpuRequest, UnitRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.waiting import LongWait, WaitingPods
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.budgets import Budgets
from scheduler_ext.extender.extender import Extender
from scheduler_ext.server.explaining import Explaining
from scheduler_ext.server.metrics.registry import Metrics, gpu_text
from scheduler_ext.server.serving import AllFeatures, Served, servings
from scheduler_ext.sources.clusterstate import ClusterState, state_of
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.sources.source_status import SourceStatus, WatchHealth
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration, MetricsSection
from scheduler_ext.wire.objects import assemble, read_objects
from scheduler_ext.wire.pod.cached_pod import bound_pod
from scheduler_ext.wire.pod.pod_claims import ClaimLookup
from scheduler_ext.wire.selectors import PodDisruptionBudget
from scheduler_ext.wire.watching import Decoder
from tests import kube_idle
from tests.dra_objects import device_class, gpu_device, resource_claim, resource_slice
from tests.kube_objects import inventory, node, pod, terminated
from tests.pages import SAMPLE


@dataclass
class Followed:
    """A file's nodes as those of a followed cluster."""

    source: InventorySource
    idle: ClusterState
    binder: Binder | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        return self.source.snapshot

    @property
    def claims(self) -> ClaimLookup | None:
        return self.source.claims

    def pending(self) -> Sequence[PendingPod]:
        return self.source.pending()

    def is_gone(self, uid: str) -> bool:
        return self.source.is_gone(uid)

    def node_facts(self) -> Mapping[str, NodeFacts]:
        return self.source.node_facts()

    def status(self) -> SourceStatus:
        watch = WatchHealth("nodes", True, True, 0.0, None)
        ages_s = {"h100-01": 1.0}
        status = self.source.status()
        return replace(
            status,
            watches=[watch],
            unplaced={"n": 1},
            report_ages_s=ages_s,
            readings={**status.readings, **self.idle.readings},
            facts=self.idle.facts,
        )


def exposition() -> list[Metric]:
    """A scrape after one filter call."""
    config = Configuration(metrics=MetricsSection(detail="device"))
    features = servings(config)
    extender, resources = Extender(config, features), config.resource_names()
    nodes = Extender(config)
    source = InventorySource(SAMPLE, nodes, resources)
    source.load()
    idle = state_of(read_objects(inventory(*kube_idle.CLUSTER)), "idle", resources)
    changed = {"h100-02": _with_a_pod(source, "h100-02"), **_with_a_claim(resources)}
    nodes.update_nodes(changed | {"h100": idle.infos["h100"]})
    # It counts, and receives no request.
    transport = Transport(kubernetes.client.Configuration())
    watch = Reflector("nodes", transport, "/", Decoder(PodDisruptionBudget), BudgetHandler(Budgets()))
    watch.restarts.inc("nodes", "ended")
    problems = ReportProblems()
    problems.refused("n", "it contradicts itself")
    failed = msgspec.convert(terminated(pod("p", on="n"), "CUDA out of memory"), kube.Pod)
    live = LiveInventory(transport, extender, config, AllFeatures([]))
    followers = features.follow(live).pods
    for follower in followers:
        follower.listed()
        follower.upsert("p", failed, (bound_pod(failed, resources), "n"))
    api = Bindings(transport)
    binder = Binder(LockedCache(Cache(1, 2), extender), api, resources, (), lambda: None, 1.0)
    pending = {REASONS[0].text: 1}
    long = [LongWait("team", "train-0", REASONS[0].text, 3600.0)]
    followed, certificate = Followed(source, idle, binder), Path("no-certificate")
    gpus = gpu_text(followed, config)
    explainer = Explainer(followed, extender.record, config, extender.preemption_answers, extender.new_nodes)
    waiting = WaitingPods(followed, extender.record, explainer)
    served = Served(config, followed, extender, Explaining(explainer), waiting, gpus, features)
    metrics = Metrics(
        followed,
        config,
        lambda: pending,
        certificate,
        lambda wall_time: long,
        lambda: {("team", "Job", "train"): 1},
        lambda: {"worker": 3},
        gpus,
        features.join(served),
    )
    metrics.observe("filter", 200, 0.001)
    metrics.count("filter", Answer(b"", nodes_in=2, nodes_out=1, rejected={REASONS[0].text: 1}))
    found = list(text_string_to_metric_families(b"".join(metrics.render()).decode()))
    # Counters count as long as their objects live.
    del watch, problems, binder, followers
    return found


def _with_a_pod(source: InventorySource, name: str) -> NodeInfo:
    """The node with a pod whose GPU no agent has seen yet."""
    assert source.snapshot is not None
    info = source.snapshot.nodes[name].info
    late = BoundPod("late", "default", "late", 0, GpuRequest(units=(UnitRequest("nvidia.com/gpu", 1),)))
    return replace(info, pods=(*info.pods, late))


def _with_a_claim(resources: ResourceNames) -> dict[str, NodeInfo]:
    """A node with a GPU that a ResourceClaim holds."""
    published = resource_slice("n", [gpu_device(0)])
    claim = resource_claim("train", on="n", devices=["gpu-0"])
    return assemble(read_objects(inventory(node("n", {}), device_class(), published, claim)), resources)
