"""The rows of the queue, with and without a plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo, PendingPod
from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.snapshot_dump import RecordedCluster, read_moment
from scheduler_ext.explain.waiting import FITS_NOW, WaitingPods
from scheduler_ext.features.gangs.planning.plan import Entry, Plan, State
from scheduler_ext.features.gangs.queue import start_estimates
from scheduler_ext.features.gangs.queue.queue_list import QueueView
from scheduler_ext.features.gangs.queue.run_times import PastRuns, PodRun, RunKind
from scheduler_ext.features.gangs.queue.start_estimates import TOO_FAR, StartEstimates
from scheduler_ext.sources.clusterstate import ClusterState, state_of
from scheduler_ext.sources.source_status import SourceStatus
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_objects
from scheduler_ext.wire.pod.pod_claims import ClaimLookup
from tests.kube_idle import ago, running
from tests.kube_objects import SHARE, Json, gpu, gpu_node, holder, inventory, node, pod

WHOLE = "nvidia.com/gpu"
CONFIG = Configuration()
DURATION = "gpu.scheduler-ext.io/max-duration"


def waits(name: str, gpus: int = 1, *, priority: int = 0, since_s: float = 60, **more: Any) -> Json:
    found = pod(name, {WHOLE: str(gpus)}, **more)
    found["metadata"]["creationTimestamp"] = ago(since_s)
    found["spec"]["priority"] = priority
    return found


def deleted(waiting: Json) -> Json:
    waiting["metadata"]["deletionTimestamp"] = ago(5)
    return waiting


def cluster(*pods: Json) -> list[Json]:
    """Two GPUs on one node, which `first` and `second` hold if they are there."""
    on = [each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")]
    held = ([holder(name)] if name in on else [] for name in ("first", "second"))
    devices = [gpu(i, f"GPU-{i}", holders=holders) for i, holders in enumerate(held)]
    return [node("a", {WHOLE: "2"}, labels={"zone": "z"}), gpu_node("a", devices), *pods]


FIRST = running("first", "a", 3600, owner="Job/x", annotations={DURATION: "2h"})
SECOND = running("second", "a", 600, owner="Job/x", annotations={DURATION: "2h"})


Lines = Callable[[], Sequence[Json]]


@dataclass
class Followed:
    """A cluster as the source of a queue."""

    objects: Sequence[Json]
    planned: Plan | None = None
    past: PastRuns | None = None
    state: ClusterState = field(init=False)
    moment: RecordedCluster = field(init=False)

    def __post_init__(self) -> None:
        self.state = state_of(read_objects(inventory(*self.objects)), "test", CONFIG.resource_names())
        self.moment = read_moment(self.state, CONFIG)

    @property
    def snapshot(self) -> Snapshot:
        return self.moment.snapshot

    @property
    def claims(self) -> ClaimLookup | None:
        return self.moment.claims

    def pending(self) -> Sequence[PendingPod]:
        return self.moment.pending()

    def is_gone(self, uid: str) -> bool:
        return False

    def node_facts(self) -> Mapping[str, NodeFacts]:
        return self.moment.node_facts()

    def status(self) -> SourceStatus:
        return SourceStatus([], 0.0, facts=self.state.facts)


def state_snapshot(info: NodeInfo) -> Snapshot:
    return build_snapshot({info.name: CONFIG.sizing().resolved(info)}, 1)


def listed(
    *pods: Json,
    plan: Plan | None = None,
    past: PastRuns | None = None,
    namespace: str | None = None,
    most: int | None = None,
) -> Json:
    return listing_of(Followed(cluster(*pods), plan, past), namespace, most)


def listing_of(source: Followed, namespace: str | None = None, most: int | None = None) -> Json:
    waiting = WaitingPods(source, source.moment.record, Explainer(source, source.moment.record, CONFIG))
    return view_of(source, waiting.lines).listed(namespace, time.time(), most)


def view_of(source: Followed, lines: Lines = list, **options: Any) -> QueueView:
    estimates = StartEstimates(source, CONFIG, 60.0, lambda: source.past, **options)
    return QueueView(source, lines, estimates, lambda: source.planned)


def names(listing: Json) -> list[str]:
    return [item["name"] for item in listing["items"]]


class TestWithoutAPlan:
    def test_the_order_is_that_of_kube_scheduler(self) -> None:
        listing = listed(
            waits("young"), waits("old", since_s=600), waits("urgent", priority=10), FIRST, SECOND
        )
        assert listing["planning"] is False
        assert names(listing) == ["urgent", "old", "young"]
        assert [item["position"] for item in listing["items"]] == [1, 2, 3]

    def test_a_row_says_why_the_pod_waits_and_for_how_long(self) -> None:
        (item,) = listed(waits("w", since_s=600), FIRST, SECOND)["items"]
        assert item["state"] == "waiting"
        assert item["nodes"] == {}
        assert item["waitingSeconds"] == pytest.approx(600, abs=2)
        assert item["reason"].startswith("a has 0 of 1 nvidia.com/gpu free")

    def test_gated_and_unreadable_pods_are_named(self) -> None:
        gated = waits("gated", schedulingGates=[{"name": "example.com/later"}])
        broken = waits("broken", schedulerName="batch")
        broken["metadata"]["annotations"] = {"gpu.scheduler-ext.io/min-memory": "much"}
        items = listed(gated, broken, FIRST, SECOND)["items"]
        assert {item["name"]: item["state"] for item in items} == {"gated": "gated", "broken": "invalid"}
        reasons = {item["name"]: item["reason"] for item in items}
        assert reasons["gated"] == (
            "scheduling gate example.com/later: the controller of example.com removes it"
        )
        assert "min-memory" in reasons["broken"]
        assert {item["start"]["unknown"] for item in items} == {
            "it has scheduling gates",
            "its request, or its gang, cannot be read",
        }

    def test_a_pod_that_is_being_deleted_does_not_fit_now(self) -> None:
        leaving = deleted(waits("w"))
        (item,) = listed(leaving)["items"]
        assert item["state"] == "terminating"
        assert item["reason"] == "it is being deleted, so kube-scheduler does not place it"
        assert item["start"]["unknown"] == "it is being deleted"

    def test_a_namespace_keeps_the_positions_of_the_whole_queue(self) -> None:
        other = waits("other", since_s=600)
        other["metadata"]["namespace"] = "ml"
        listing = listed(other, waits("mine"), namespace="default")
        assert [(item["position"], item["name"]) for item in listing["items"]] == [(2, "mine")]
        assert listing["total"] == 1


def entry(name: str, state: State, **more: Any) -> Entry:
    return Entry(f"uid-{name}", "default", name, state, **more)


GANG = GangKey("default", "annotation", "train")


class TestWithAPlan:
    def test_the_order_the_states_and_the_nodes_are_those_of_the_plan(self) -> None:
        plan = Plan(
            time.time(), [entry("b", State.NOMINATED, node="a"), entry("c", State.WAITING, reason="no room")]
        )
        listing = listed(waits("c", since_s=600), waits("b"), plan=plan)
        assert listing["planning"] is True
        assert names(listing) == ["b", "c"]
        first, second = listing["items"]
        assert (first["state"], first["nodes"]) == ("nominated", {"a": 1})
        assert second["reason"] == "no room"
        assert listing["states"]["nominated"] == State.NOMINATED.meaning

    def test_pods_that_came_or_went_since_the_plan(self) -> None:
        plan = Plan(time.time(), [entry("gone", State.WAITING), entry("b", State.WAITING)])
        assert names(listed(waits("b"), waits("new"), plan=plan)) == ["b", "new"]

    def test_a_pod_that_is_deleted_since_the_plan_has_no_place(self) -> None:
        plan = Plan(time.time(), [entry("w", State.NOMINATED, node="a")])
        (item,) = listed(deleted(waits("w")), plan=plan)["items"]
        assert (item["state"], item["nodes"]) == ("terminating", {})

    def test_a_gang_is_one_row(self) -> None:
        short = "1 of 2 members fit; 1 × H100 short"
        plan = Plan(
            time.time(),
            [
                entry("m1", State.RESERVED, gang=GANG, reason=short),
                entry("single", State.WAITING),
                entry("m2", State.RESERVED, gang=GANG, reason=short),
            ],
        )
        gang, single = listed(waits("m1"), waits("m2"), waits("single"), plan=plan)["items"]
        assert (gang["name"], gang["gang"]["source"], gang["uid"]) == ("train", "annotation", None)
        assert [each["name"] for each in gang["members"]] == ["m1", "m2"]
        assert gang["reason"] == short
        assert single["members"] == []

    def test_a_gang_says_what_all_of_its_pods_ask(self) -> None:
        plan = Plan(time.time(), [entry(name, State.RESERVED, gang=GANG) for name in ("m1", "m2", "m3")])
        (gang,) = listed(waits("m1"), waits("m2", 8), waits("m3", 8), plan=plan)["items"]
        assert gang["asks"] == "1 pod: 1 × nvidia.com/gpu; 2 pods: 8 × nvidia.com/gpu"


def start(listing: Json, name: str) -> Json:
    (found,) = [item["start"] for item in listing["items"] if item["name"] == name]
    return dict(found)


def test_pods_without_a_uid_have_rows_of_their_own() -> None:
    """Pods that were written by hand, and not read from a cluster."""
    pods = [waits("small"), waits("large", 9)]
    for each in pods:
        del each["metadata"]["uid"]
    rows = {item["name"]: item for item in listed(*pods)["items"]}
    assert rows["small"]["reason"] == FITS_NOW
    assert rows["large"]["reason"] == "a has 2 of 9 nvidia.com/gpu free"
    assert rows["large"]["start"]["latest"] is None


class TestStarts:
    def test_by_stated_limits(self) -> None:
        """The first of the two ends within an hour, the second within 110 minutes."""
        listing = listed(waits("w", since_s=600), waits("v"), FIRST, SECOND)
        assert start(listing, "w")["byStatedLimits"]
        assert start(listing, "w")["earliest"] is None
        assert start(listing, "w")["latest"] < start(listing, "v")["latest"]

    def test_by_past_runs(self) -> None:
        now = time.time()
        past = PastRuns(now - 1e6, 100)
        for hours in range(1, 30):
            kind = RunKind("default", "Job/x", Followed(cluster(FIRST)).state.infos["a"].pods[0].asked)
            past.ended(PodRun(kind, now - 1e5, now - 1e5 + 600 * hours))
        found = start(listed(waits("w"), running("first", "a", 60, owner="Job/x"), SECOND, past=past), "w")
        assert found["unknown"] is None
        assert found["earliest"] < found["median"] < found["latest"]

    @pytest.mark.parametrize(
        "asking",
        [
            pytest.param({"nodeSelector": {"zone": "elsewhere"}}, id="by a filter of kube-scheduler"),
            pytest.param(
                {"annotations": {"gpu.scheduler-ext.io/model": "T4"}}, id="by a filter of the extender"
            ),
        ],
    )
    def test_other_nodes_are_no_help(self, asking: Json) -> None:
        listing = listed(waits("w", **asking), FIRST, SECOND)
        assert start(listing, "w")["unknown"] == "it fits on no node, even if all pods there had ended"

    @pytest.mark.parametrize(
        "askings",
        [
            pytest.param(
                [{"annotations": {"gpu.scheduler-ext.io/model": model}} for model in ("A100", "H100")],
                id="by their wishes",
            ),
            pytest.param(
                [{"nodeSelector": {"zone": zone}} for zone in ("z", "y")], id="with one request, by selectors"
            ),
        ],
    )
    def test_a_gang_whose_pods_go_to_different_nodes_has_no_estimate(self, askings: list[Json]) -> None:
        plan = Plan(time.time(), [entry(name, State.RESERVED, gang=GANG) for name in ("m1", "m2")])
        one, other = (waits(f"m{i}", **asking) for i, asking in enumerate(askings, 1))
        there = node("b", {WHOLE: "1"}, labels={"zone": "y"})
        devices = gpu_node("b", [gpu(0, "GPU-b", model="H100-80GB")])
        source = Followed([*cluster(one, other, FIRST, SECOND), there, devices], plan)
        view = view_of(source)
        assert start(view.listed(None, time.time()), "train")["unknown"] == (
            "the pods of its gang go to different nodes, which estimates do not follow"
        )

    def test_a_planned_place_counts_as_taken(self) -> None:
        plan = Plan(time.time(), [entry("w", State.WAITING), entry("p", State.PLANNED, node="a")])
        listing = listed(waits("p"), waits("w"), FIRST, plan=plan)
        assert start(listing, "p")["latest"] == start(listing, "p")["earliest"]
        assert start(listing, "w")["latest"] > start(listing, "p")["latest"]

    def test_a_planned_place_on_a_node_that_is_gone_harms_no_estimate(self) -> None:
        plan = Plan(time.time(), [entry("w", State.WAITING), entry("p", State.PLANNED, node="gone")])
        listing = listed(waits("p"), waits("w"), FIRST, plan=plan)
        assert start(listing, "w")["unknown"] is None

    def test_a_share_that_no_gpu_has_free_waits_for_a_pod_to_leave(self) -> None:
        """The two GPUs have enough together: the estimate does not contradict the reason."""
        on = {"gpu.scheduler-ext.io/sharing": "memory"}
        devices = [gpu(i, f"GPU-{i}", total=40000, holders=[holder(f"part-{i}")]) for i in range(2)]
        parts = [pod(f"part-{i}", {SHARE: "20000"}, on="s") for i in range(2)]
        for i, part in enumerate(parts):
            uuid = {"devices.gpu.scheduler-ext.io/main": f"GPU-{i}"}
            part["metadata"]["annotations"] = {DURATION: "1h"} | uuid
            part["status"]["startTime"] = part["metadata"]["creationTimestamp"] = ago(60)
        wants = pod("wants", {SHARE: "24000"})
        source = Followed([node("s", {SHARE: "72000"}, labels=on), gpu_node("s", devices), *parts, wants])
        item = listing_of(source)["items"][0]
        assert "MiB short (needs 24,000, has" in item["reason"]
        assert item["start"]["byStatedLimits"]

    def test_a_slice_that_fits_starts_now_though_less_than_a_gpu_is_left(self) -> None:
        sliced = {
            "nvidia.com/gpu.product": "Tesla-T4",
            "nvidia.com/gpu.count": "1",
            "nvidia.com/gpu.replicas": "4",
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
        }
        held = pod("held", {WHOLE: "1"}, on="s")
        source = Followed([node("s", {WHOLE: "4"}, labels=sliced), held, waits("w")])
        item = listing_of(source)["items"][0]
        assert item["reason"] == FITS_NOW
        assert item["start"]["latest"] == item["start"]["earliest"]

    def test_an_estimate_that_is_older_than_the_reason_is_not_shown_beside_it(self) -> None:
        source = Followed(cluster(waits("w"), FIRST))
        line = {"uid": "uid-w", "served": True, "fits": 1, "nearest": FITS_NOW, "reason": "", "refusals": {}}
        view = view_of(source, lambda: [line], monotonic=lambda: 0.0)
        assert start(view.listed(None, time.time()), "w")["unknown"] is None
        line |= {"fits": 0, "nearest": "a has none of 1 nvidia.com/gpu free"}
        assert start(view.listed(None, time.time()), "w")["unknown"] == (
            "the estimate is being made; ask again in some seconds"
        )

    def test_a_pod_of_another_scheduler_has_none(self) -> None:
        (item,) = listed(waits("w", schedulerName="batch"))["items"]
        assert item["reason"].startswith("its schedulerName is batch, which has not asked about it")
        assert item["start"]["unknown"] == "another scheduler is to place it"

    def test_a_gang_for_which_no_places_are_kept_does_not_start_now(self) -> None:
        """Though the GPUs suffice: a member lacks something else."""
        short = "1 of 2 members fit; no node for 1 × nvidia.com/gpu: 1 Insufficient memory"
        plan = Plan(
            time.time(), [entry(name, State.NOT_KEPT, gang=GANG, reason=short) for name in ("m1", "m2")]
        )
        found = start(listed(waits("m1"), waits("m2"), plan=plan), "train")
        assert (found["earliest"], found["latest"]) == (None, None)

    def test_a_failure_leaves_the_queue(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(start_estimates, "estimates", fails)
        assert start(listed(waits("w"), FIRST), "w")["unknown"] == (
            "the estimate failed; see the log of the extender"
        )

    def test_a_planned_pod_counts_once_on_its_node(self) -> None:
        """The nodes of a live cluster count planned pods, which are rows of the queue too."""
        source = Followed(cluster(waits("p"), waits("w"), FIRST))
        (info,) = [node.info for node in source.snapshot.nodes.values()]
        planned = replace(info, planned=(source.pending()[0].pod,))
        source.moment = replace(source.moment, snapshot=state_snapshot(planned))
        source.planned = Plan(time.time(), [entry("p", State.NOMINATED, node="a"), entry("w", State.WAITING)])
        listing = view_of(source).listed(None, time.time())
        assert start(listing, "w")["byStatedLimits"], "after the first pod, which has stated its limit"

    def test_the_end_of_a_long_queue_has_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(start_estimates, "MOST", 3)
        listing = listed(*(waits(f"w{i}") for i in range(4)), FIRST, SECOND)
        assert sum(item["start"]["unknown"] == TOO_FAR for item in listing["items"]) == 1

    def test_shares_and_mig_take_parts_of_gpus(self) -> None:
        """A share of a quarter fits beside three quarters; half does not, until they have ended."""
        on = {"gpu.scheduler-ext.io/sharing": "memory"}
        device = gpu(0, "GPU-0", total=40000, holders=[holder("part")])
        part = pod(
            "part", {SHARE: "27000"}, on="s", annotations={"devices.gpu.scheduler-ext.io/main": "GPU-0"}
        )
        part["metadata"]["annotations"][DURATION] = "1h"
        part["status"]["startTime"] = part["metadata"]["creationTimestamp"] = ago(60)
        objects = [node("s", {SHARE: "36000"}, labels=on), gpu_node("s", [device]), part]
        half, quarter = pod("half", {SHARE: "18000"}), pod("quarter", {SHARE: "8000"})
        source = Followed([*objects, half, quarter])
        view = view_of(source)
        listing = view.listed(None, time.time())
        assert start(listing, "half")["byStatedLimits"]
        assert start(listing, "quarter")["earliest"] is not None
