"""The execution of a plan on an API server that fails, or whose objects change meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.one_shot import cluster_state
from scheduler_ext.features.defrag import evictions as evictions_module
from scheduler_ext.features.defrag import executor as executor_module
from scheduler_ext.features.defrag.executor import Execution, Executor
from scheduler_ext.features.defrag.movable import Rules
from scheduler_ext.features.defrag.plan import make_plan, waiting_pod
from scheduler_ext.wire.pod.pod_identity import pod_name
from tests.cluster.api.api_faults import After, AnswerFault, Refuse, Reset
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import Match, Request
from tests.cluster.api.api_server import ApiServer
from tests.features.defrag.planning import CONFIGURATION, WHOLE, whole_node, whole_pod
from tests.kube_objects import Json, pod

KINDS = {"Node": NODES, "GPUNode": GPU_NODES, "Pod": PODS}
HELD = "gpu.scheduler-ext.io/held"


def is_eviction(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/eviction")


def is_poll(request: Request) -> bool:
    """A look for the evicted pod."""
    return request.method == "GET" and request.path.endswith("/pods/x")


def is_report(request: Request) -> bool:
    """A look for the report of the old node."""
    return request.method == "GET" and request.path.endswith("/gpunodes/a")


class Fragmented:
    """Two nodes of two GPUs, of which one is held by x and one by y, and a pod w of two GPUs. A controller
    creates x again, and a scheduler places it and w, before the request after the first eviction. The agent
    sees a little later that x has left."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.server, self._transport = server, transport
        self.said: list[str] = []
        self._evicted, self._again, self._reads = False, False, 0
        self.meanwhile: Callable[[], object] = lambda: None
        again = whole_pod("x", "b")
        again["metadata"]["uid"] = "uid-again"
        self.again: Json = again
        objects = [*whole_node("a", 2, "x"), *whole_node("b", 2, "y"), pod("w", {WHOLE: "2"})]
        for each in [*objects, whole_pod("x", "a"), whole_pod("y", "b", priority=5)]:
            server.store.put(KINDS[each["kind"]], each)
        server.hook = self._hook

    def _hook(self, request: Request) -> Answer | None:
        if self._evicted and not self._again and (is_eviction(request) or is_poll(request)):
            self._again = True
            self.server.store.delete(PODS, "x", "default")
            self.server.store.put(PODS, self.again)
            self.meanwhile()
        elif self._again and request.method == "GET" and request.path.endswith("/gpunodes/a"):
            self._reads += 1
            if self._reads == 3:
                left = {"status": whole_node("a", 2)[0]["status"]}
                self.server.store.update(GPU_NODES, "a", lambda before: before | left)
        elif request.method == "GET" and request.path.endswith("/pods/w"):
            bound = {"spec": pod("w", {WHOLE: "2"}, on="a")["spec"]}
            self.server.store.update(PODS, "w", lambda before: before | bound, "default")
        self._evicted = self._evicted or is_eviction(request)
        return None

    def run(self, step_s: float = 5.0) -> Execution:
        """The plan for w, executed."""
        rules = Rules(0.0, time.time())
        state = cluster_state(self._transport, "test", CONFIGURATION, with_objects=True, with_waiting=True)
        (waiting,) = (each for each in state.objects.pods if pod_name(each) == "default/w")
        plan = make_plan([waiting_pod(waiting, state, CONFIGURATION)], state, CONFIGURATION, rules)
        assert [move.pod.bound.name for move in plan.moves] == ["x"]
        executor = Executor(
            self._transport,
            "test",
            CONFIGURATION,
            lambda: rules,
            self.said.append,
            step_s=step_s,
            settle_s=0.0,
        )
        return executor.run(plan.outcomes)

    def held(self) -> list[str]:
        """The nodes with a room."""
        nodes = [each.object()["metadata"] for each in self.server.store.collection(GPU_NODES).current()]
        return [each["name"] for each in nodes if (each.get("annotations") or {}).get(HELD)]


@pytest.fixture
def fragmented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fragmented]:
    for module in (executor_module, evictions_module):
        monkeypatch.setattr(module, "POLL_S", 0.01)
    with ApiServer() as server:
        transport = Transport.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"))
        yield Fragmented(server, transport)
        transport.close()


def outcome(execution: Execution) -> tuple[str | None, list[tuple[str, str]], dict[str, str]]:
    done = [(each.replaced_by, each.node) for each in execution.done]
    return execution.problem, done, execution.nodes


DONE = (None, [("default/x", "b")], {"default/w": "a"})


def test_a_pod_that_comes_back_by_the_same_name(fragmented: Fragmented) -> None:
    """The report of its old node still names it, and takes a while to be written again."""
    assert outcome(fragmented.run()) == DONE
    assert fragmented.held() == []


def test_a_pod_that_comes_back_by_another_name(fragmented: Fragmented) -> None:
    fragmented.again["metadata"]["name"] = "other"
    assert outcome(fragmented.run()) == (None, [("default/other", "b")], {"default/w": "a"})


TIMEOUT = Refuse(500, "InternalError", "etcdserver: request timed out")


@pytest.mark.parametrize(
    ("fault", "where", "times"),
    [
        pytest.param(After(Reset()), is_eviction, 1, id="the answer of an eviction that was granted is lost"),
        pytest.param(After(TIMEOUT), is_eviction, 1, id="an eviction that was granted times out"),
        pytest.param(Refuse(503), is_poll, 3, id="the API server is away for a moment"),
    ],
)
def test_a_fault_that_passes_breaks_no_plan(
    fragmented: Fragmented, fault: AnswerFault, where: Match, times: int
) -> None:
    fragmented.server.faults.place(fault, where, times=times)
    assert outcome(fragmented.run()) == DONE


def test_a_report_that_the_api_server_does_not_return_for_a_moment(fragmented: Fragmented) -> None:
    fragmented.meanwhile = lambda: fragmented.server.faults.place(Refuse(503), is_report, times=2)
    assert outcome(fragmented.run()) == DONE


def test_a_node_that_is_deleted_after_the_move(fragmented: Fragmented) -> None:
    """The check of the rest of the plan names it."""

    def delete() -> None:
        fragmented.server.store.delete(GPU_NODES, "a")
        fragmented.server.store.delete(NODES, "a")

    fragmented.meanwhile = delete
    execution = fragmented.run()
    assert execution.problem is not None
    assert "404" not in execution.problem
    assert [each.replaced_by for each in execution.done] == ["default/x"]


def test_an_api_server_that_stays_away_leaves_an_evicted_pod(fragmented: Fragmented) -> None:
    """The problem says so, because the move counts as not done."""
    fragmented.server.faults.place(Refuse(503), is_poll, times=None)
    execution = fragmented.run(step_s=0.1)
    assert execution.problem is not None
    assert execution.problem.startswith(
        "pod default/x was evicted, and it is unknown whether it is back: 503"
    )
    assert [move.pod.bound.name for move in execution.pending] == ["x"]
    assert fragmented.held() == []


def test_a_waiting_pod_that_can_no_longer_be_read(fragmented: Fragmented) -> None:
    """What was done by then is said."""

    def change() -> None:
        annotations = {"annotations": {"gpu.scheduler-ext.io/sharing": "nonsense"}}
        fragmented.server.store.update(
            PODS, "w", lambda before: before | {"metadata": before["metadata"] | annotations}, "default"
        )

    fragmented.meanwhile = change
    execution = fragmented.run()
    assert execution.problem is not None
    assert "gpu.scheduler-ext.io/sharing" in execution.problem
    assert [each.replaced_by for each in execution.done] == ["default/x"]
    assert fragmented.held() == []
