"""Placeholders in a cluster: created for pods that the extender alone refuses, and never left behind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from scheduler_ext.cluster.client.retry import Backoff
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.features.autoscaling.blind_rejections import BlindRejections
from scheduler_ext.features.autoscaling.placeholders import placeholder_writer as writer_module
from scheduler_ext.features.autoscaling.placeholders.hourly_budget import NAME as BUDGET
from scheduler_ext.features.autoscaling.placeholders.hourly_budget import HourlyBudget
from scheduler_ext.features.autoscaling.placeholders.placeholder_writer import PlaceholderWriter
from scheduler_ext.features.autoscaling.settings import AutoscalerSection, PlaceholdersSection
from scheduler_ext.wire.config import Configuration
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import NODES, PODS
from tests.cluster.api.api_requests import Request
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.living import WHOLE, Living
from tests.cluster.test_agent_labels import EVENTS
from tests.kube_objects import Json, gpu, names_body, node, pod

NAMESPACE = "gpu-scheduler-placeholders"
JOBS, CONFIGMAPS = "/apis/batch/v1/jobs", "/api/v1/configmaps"
TYPE = "node.kubernetes.io/instance-type"
LARGE = pod("large", {WHOLE: "2"}, schedulerName="gpu-scheduler")
OTHER = pod("other", {WHOLE: "2"}, schedulerName="gpu-scheduler")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "EVERY_S", 0.01)
    monkeypatch.setattr(writer_module, "Backoff", lambda: Backoff(0.01, 0.02))


class Scaling:
    """A cluster with two nodes of two GPUs each, of which one is held, and extenders that follow it."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.server = server
        self._transport = transport
        self.running: list[Living] = []
        budget = {"metadata": {"name": BUDGET, "namespace": NAMESPACE}, "data": {}}
        server.store.put(CONFIGMAPS, budget)

    def start(self, **settings: object) -> Living:
        """One more extender, with placeholders."""
        section = PlaceholdersSection(**{"enabled": True, "after": "0s", **settings})  # type: ignore[arg-type]
        config = Configuration().with_sections(AutoscalerSection(section))
        living = Living(self.server, self._transport)
        living.configure(config)
        for name in "ab":
            self.server.store.put(NODES, node(name, {WHOLE: "2"}, labels={TYPE: "two"}))
            living.report(name, gpu(0, f"{name}0"), gpu(1, f"{name}1"))
            self.server.store.put(PODS, pod(f"on-{name}", {WHOLE: "1"}, on=name))
        self.running.append(living)
        living.live.start()
        eventually(lambda: living.live.snapshot is not None)
        eventually(lambda: all(len(living.info(name).devices) == 2 for name in "ab"))
        eventually(lambda: all(any(pod.holds for pod in living.info(name).pods) for name in "ab"))
        return living

    def created(self, **settings: object) -> Living:
        """One more extender, which has created the placeholder of a pod."""
        living = self.start(**settings)
        self.wait(living, LARGE)
        eventually(lambda: self.jobs() == ["default/large"])
        return living

    def wait(self, living: Living, asking: Json, offered: str = "ab") -> None:
        """A pod waits, and kube-scheduler has asked about it."""
        self.server.store.put(PODS, asking)
        eventually(lambda: asking["metadata"]["name"] in self.waiting(living))
        self.ask(living, asking, offered)

    def ask(self, living: Living, asking: Json, offered: str = "ab") -> None:
        answer = living.extender.filter(names_body(asking, list(offered)), time.monotonic() + 60)
        assert not answer.nodes_out
        living.extender.record.answered("filter", answer)

    def waiting(self, living: Living) -> set[str]:
        return {each.pod.name for each in living.live.pending()}

    def jobs(self) -> list[str]:
        """The pods that have a placeholder."""
        found = self.server.store.objects(JOBS)
        return sorted(each["metadata"]["annotations"]["gpu.scheduler-ext.io/waiting-pod"] for each in found)

    def noted(self) -> int:
        """The placeholders in the budget."""
        data = self.server.store.get(CONFIGMAPS, BUDGET, NAMESPACE).object()["data"]
        return len(json.loads(data.get("created", "[]")))

    def counted(self, living: Living) -> dict[str, int]:
        found = living.loop(PlaceholderWriter).placeholders
        return {result: count for result, count in dict(found).items() if isinstance(result, str) and count}

    def looks(self) -> None:
        """Wait for two whole rounds of the extenders, which have something to look at."""
        for _ in range(2):
            self.server.log.clear()
            self.server.log.wait_for(lambda request: request.path.endswith("/jobs"))


@pytest.fixture
def scaling(
    server: ApiServer, transport: Transport, living: Living, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scaling]:
    """`living` sets the pace of publications, and is not started."""
    built = Scaling(server, transport)
    yield built
    server.faults.lift()
    for each in built.running:
        each.live.stop()


def delete(scaling: Scaling, name: str) -> None:
    scaling.server.store.delete(PODS, name, "default")


def place(scaling: Scaling, name: str) -> None:
    """The pod is on a node that has come."""
    scaling.server.store.put(NODES, node("c", {WHOLE: "2"}, labels={TYPE: "two"}))
    scaling.server.store.put(PODS, pod(name, {WHOLE: "2"}, on="c", schedulerName="gpu-scheduler"))


def begin_to_delete(scaling: Scaling, name: str) -> None:
    """A finalizer keeps the pod."""
    scaling.server.store.put(
        PODS, LARGE | {"metadata": LARGE["metadata"] | {"deletionTimestamp": "2026-11-01T11:00:00Z"}}
    )


@pytest.mark.parametrize(
    "ends",
    [delete, begin_to_delete, place],
    ids=["the pod is deleted", "the pod is being deleted", "the pod is placed"],
)
def test_a_refused_pod_has_one_placeholder_until(
    scaling: Scaling, ends: Callable[[Scaling, str], None]
) -> None:
    living = scaling.created()
    scaling.looks()
    assert (scaling.jobs(), scaling.noted()) == (["default/large"], 1)
    ends(scaling, "large")
    eventually(lambda: scaling.jobs() == [])
    eventually(lambda: scaling.counted(living) == {"created": 1, "removed": 1})
    reasons = {each["reason"]: each for each in scaling.server.store.objects(EVENTS)}
    assert reasons["GPUPlaceholderCreated"]["regarding"]["name"] == "large"
    assert "a new one like a would" in reasons["GPUPlaceholderCreated"]["note"]


def test_a_placeholder_is_no_waiting_pod(scaling: Scaling) -> None:
    """Its pod would otherwise need a placeholder as well."""
    living = scaling.created()
    (job,) = scaling.server.store.objects(JOBS)
    template = job["spec"]["template"]
    metadata = {"name": "placeholder", "namespace": NAMESPACE, "uid": "u"} | template["metadata"]
    mine = {"kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    scaling.server.store.put(PODS, mine)
    later = pod("later", {WHOLE: "1"}, schedulerName="gpu-scheduler")
    scaling.server.store.put(PODS, later)
    eventually(lambda: "later" in scaling.waiting(living))
    assert scaling.waiting(living) == {"large", "later"}
    answer = living.extender.filter(names_body(mine, ["a", "b"]), time.monotonic() + 60)
    assert json.loads(answer.body)["NodeNames"] == []
    blind = BlindRejections(living.extender.new_nodes)
    blind.answered("filter", answer)
    blind.read()
    assert not dict(blind.rejections)


@pytest.mark.parametrize(
    ("asking", "offered"),
    [
        pytest.param(pod("p", {WHOLE: "3"}, schedulerName="gpu-scheduler"), "ab", id="no kind takes it"),
        pytest.param(pod("p", {WHOLE: "2"}, schedulerName="other"), "ab", id="of another scheduler"),
        pytest.param(
            pod("p", {WHOLE: "2"}, schedulerName="gpu-scheduler", schedulingGates=[{"name": "a/b"}]),
            "ab",
            id="behind a gate",
        ),
        pytest.param(LARGE, "", id="on no offered node"),
    ],
)
def test_no_placeholder_is_created_for_a_pod(scaling: Scaling, asking: Json, offered: str) -> None:
    living = scaling.start()
    scaling.wait(living, asking, offered)
    # This one gets one, in the same round.
    scaling.wait(living, OTHER)
    eventually(lambda: scaling.jobs() == ["default/other"])
    scaling.looks()
    assert scaling.jobs() == ["default/other"]


def test_a_pod_that_waits_since_a_moment_gets_none_yet(scaling: Scaling) -> None:
    living = scaling.start(after="1h")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for asking, created in ((LARGE, now), (OTHER, "2026-01-01T00:00:00Z")):
        metadata = asking["metadata"] | {"creationTimestamp": created}
        scaling.wait(living, asking | {"metadata": metadata})
    eventually(lambda: scaling.jobs() == ["default/other"])


@pytest.mark.parametrize(
    ("ahead_s", "left"),
    [
        pytest.param(60, 0, id="a clock that is ahead by a minute"),
        pytest.param(5 * 365 * 86_400, 1, id="a clock that was wrong by years"),
    ],
)
def test_the_budget_counts_what_another_extender_created_by(
    scaling: Scaling, transport: Transport, ahead_s: float, left: int
) -> None:
    budgets = [HourlyBudget(transport, NAMESPACE, 1) for _ in range(2)]
    budgets[0].wall = lambda: time.time() + ahead_s
    assert [each.take(1) for each in budgets] == [1, left]
    assert scaling.noted() == 1


def test_nothing_is_created_beyond_the_hourly_budget_and_nothing_stays(scaling: Scaling) -> None:
    living = scaling.created(per_hour=1)
    scaling.wait(living, OTHER)
    eventually(lambda: scaling.counted(living).get("over-budget", 0) > 1)
    assert (scaling.jobs(), scaling.noted()) == (["default/large"], 1)
    delete(scaling, "other")
    eventually(lambda: scaling.waiting(living) == {"large"})
    # So that no round that began before takes the next budget for the other pod.
    scaling.looks()
    delete(scaling, "large")
    eventually(lambda: scaling.jobs() == [])
    # An hour later, there is room again.
    budget = living.loop(PlaceholderWriter)._budget
    budget.wall = lambda: time.time() + 3601
    scaling.wait(living, pod("third", {WHOLE: "2"}, schedulerName="gpu-scheduler"))
    eventually(lambda: scaling.jobs() == ["default/third"])


def test_what_the_api_server_refuses_uses_up_no_budget(scaling: Scaling) -> None:
    """As a ResourceQuota does."""
    living = scaling.start(per_hour=1)
    scaling.server.faults.place(Refuse(403, "Forbidden", "exceeded quota"), is_create, times=3)
    scaling.wait(living, LARGE)
    eventually(lambda: scaling.jobs() == ["default/large"])
    assert scaling.noted() == 1


def is_create(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/jobs")


def test_a_placeholder_that_is_refused_for_good_holds_back_no_other(scaling: Scaling) -> None:
    """As by a policy on the tolerations, which it has from its pod."""
    living = scaling.start(per_hour=1)
    first = LARGE | {"spec": LARGE["spec"] | {"priority": 10, "tolerations": [{"key": "no"}]}}

    def of_the_first(request: Request) -> bool:
        return is_create(request) and b"default/large" in request.body

    scaling.server.faults.place(Refuse(403, "Forbidden", "policy denied"), of_the_first, times=None)
    scaling.wait(living, first)
    eventually(lambda: scaling.counted(living).get("refused", 0) > 0)
    scaling.wait(living, OTHER)
    eventually(lambda: scaling.jobs() == ["default/other"])


def test_two_extenders_create_one_placeholder(scaling: Scaling) -> None:
    """Both believe to be active, as for a moment after a change of the leader. Each may note one in the
    budget before it finds that the other has created it."""
    one, other = scaling.start(per_hour=4), scaling.start(per_hour=4)
    for living in (one, other):
        scaling.wait(living, LARGE)
        scaling.wait(living, OTHER)
    eventually(lambda: scaling.jobs() == ["default/large", "default/other"])
    scaling.looks()
    assert scaling.jobs() == ["default/large", "default/other"]
    assert sum(scaling.counted(each).get("created", 0) for each in (one, other)) == 2
    delete(scaling, "large")
    delete(scaling, "other")
    eventually(lambda: scaling.jobs() == [])


def test_the_next_extender_keeps_what_is_needed(scaling: Scaling) -> None:
    first = scaling.created()
    first.live.stop()
    second = scaling.start()
    # Before kube-scheduler asks it about the pod, it does not know whether it refuses the pod.
    scaling.looks()
    assert scaling.jobs() == ["default/large"]
    scaling.ask(second, LARGE)
    scaling.looks()
    assert (scaling.jobs(), scaling.noted()) == (["default/large"], 1)


def test_a_placeholder_that_ended_at_its_deadline_is_counted(scaling: Scaling) -> None:
    living = scaling.created(per_hour=1)
    (job,) = scaling.server.store.objects(JOBS)
    scaling.looks()
    scaling.server.store.delete(JOBS, job["metadata"]["name"], NAMESPACE)
    eventually(lambda: scaling.counted(living).get("expired") == 1)
    assert scaling.jobs() == []
