"""The CPU of a node: after any events the published value is the sum of its pods' requests, in coarse
steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.estimate import estimate_from_labels
from scheduler_ext.core.node.node import UNLIMITED, NodeInfo
from scheduler_ext.core.node.state import cpu_free_milli
from tests.core.cache.seen import cache_with, info_of
from tests.core.reported import WHOLE, bound, device, wants

ESTIMATE = estimate_from_labels({"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "2"}, {})
RECORDS = (
    NodeRecord("u", {WHOLE: 2}, cpu_milli=1600),
    NodeRecord("u", {WHOLE: 2}, ESTIMATE, cpu_milli=1600),
    NodeRecord("u", {WHOLE: 2}, cpu_milli=16_000),
    NodeRecord("u", {WHOLE: 2}),
)
NODES = st.sampled_from("ab")
AMOUNTS = st.sampled_from((0, 1, 40, 99, 100, 250, 5000))


@dataclass(frozen=True)
class Placed:
    node: str
    cpu_milli: int
    finished: bool = False


class Model(RuleBasedStateMachine):
    """Pods with GPUs (g0...) and without (c0...), by uid."""

    def __init__(self) -> None:
        super().__init__()
        self.inventory = Cache(150, 300)
        self.pods: dict[str, Placed] = {}
        self.gone: set[str] = set()
        self.shown: dict[str, int] = {}
        self.others: dict[str, Placed] = {}

    @rule(name=NODES, record=st.sampled_from(RECORDS))
    def update_node(self, name: str, record: NodeRecord) -> None:
        self.inventory.update_node(name, record, 0.0)

    @rule(name=NODES)
    def remove_node(self, name: str) -> None:
        self.inventory.remove_node(name)

    @rule(name=NODES, there=st.booleans())
    def report(self, name: str, there: bool) -> None:
        if there:
            self.inventory.update_report(name, Report((device(0),)), 0.0, 0.0)
        else:
            self.inventory.remove_report(name, 0.0)

    @rule(number=st.integers(0, 3), node=NODES, cpu_milli=AMOUNTS, finished=st.booleans())
    def gpu_pod(self, number: int, node: str, cpu_milli: int, finished: bool) -> None:
        uid = f"g{number}"
        pod = bound(uid, wants(1, WHOLE), cpu_milli=cpu_milli, finished=finished, uid=uid)
        self.inventory.confirm(pod, node, 0.0)
        before = self.pods.get(uid)
        if uid in self.gone or (before and before.node == node and before.finished and not finished):
            return
        self.pods[uid] = Placed(node, cpu_milli, finished)

    @rule(number=st.integers(0, 5), node=NODES, cpu_milli=AMOUNTS)
    def other_pod(self, number: int, node: str, cpu_milli: int) -> None:
        self.inventory.update_other_pod(f"c{number}", node, cpu_milli)
        self.others[f"c{number}"] = Placed(node, cpu_milli)

    @rule(uid=st.sampled_from(("g0", "g1", "c0", "c1", "c2", "c3")))
    def remove_pod(self, uid: str) -> None:
        self.inventory.remove_pod(uid, 0.0)
        self.others.pop(uid, None)
        if self.pods.pop(uid, None) is not None:
            self.gone.add(uid)

    def recount(self, info: NodeInfo, name: str) -> int:
        """The pods' requests there, one by one."""
        if info.report is None and info.estimate is None:
            return 0
        return sum(p.cpu_milli for p in self.others.values() if p.node == name)

    @invariant()
    def adds_up(self) -> None:
        for name in "ab":
            info = self.inventory.info(name)
            if info is None:
                continue
            assert info.cpu_elsewhere_milli == self.recount(info, name)
            asked = sum(pod.cpu_milli for pod in info.pods if pod.holds)
            assert asked == sum(p.cpu_milli for p in self.pods.values() if p.node == name and not p.finished)
            if info.report is None and info.estimate is None:
                assert cpu_free_milli(info) == UNLIMITED
        assert self.inventory.other_pods() == {uid for uid, p in self.others.items() if p.cpu_milli}

    @invariant()
    def tells_every_change(self) -> None:
        for name in self.inventory.take_changes():
            info = self.inventory.info(name)
            self.shown[name] = cpu_free_milli(info) if info is not None else -1
        for name in "ab":
            info = self.inventory.info(name)
            if info is not None:
                assert self.shown[name] == cpu_free_milli(info)


Model.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
TestAgainstARecount = Model.TestCase


class TestWhatTouchesANode:
    def test_nothing_that_no_step_shows(self) -> None:
        inventory = cache_with(device(0), cpu_milli=1600)
        inventory.update_other_pod("c", "a", 1)
        inventory.take_changes()
        inventory.update_other_pod("d", "a", 50)
        inventory.update_other_pod("d", "a", 99)
        inventory.update_other_pod("d", "a", 99)
        inventory.remove_pod("d", 0.0)
        assert not inventory.has_changes
        assert info_of(inventory).cpu_elsewhere_milli == 1

    def test_no_pod_on_a_node_without_gpus_or_without_a_node_object(self) -> None:
        inventory = cache_with(cpu_milli=1600)
        inventory.update_other_pod("c", "a", 1000)
        inventory.update_other_pod("d", "elsewhere", 1000)
        assert not inventory.has_changes

    def test_a_pod_bound_here_without_gpus_counts_once(self) -> None:
        inventory = cache_with(device(0), cpu_milli=1600)
        ours = bound("c", cpu_milli=300, uid="c")
        inventory.update_other_pod("c", "a", 300)
        inventory.confirm(ours, "a", 0.0)
        inventory.update_other_pod("c", "a", 300)
        info = info_of(inventory)
        assert (info.cpu_elsewhere_milli, cpu_free_milli(info)) == (0, 1300)
