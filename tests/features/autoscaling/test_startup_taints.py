"""The startup taint of nodes: removed when their GPUs are known and handed out, and nothing else with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler_ext.cluster.client.retry import Backoff
from scheduler_ext.features.autoscaling import startup_taints as taints_module
from scheduler_ext.features.autoscaling.startup_taints import StartupTaints
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_requests import Request
from tests.cluster.following import eventually
from tests.cluster.living import WHOLE, Living
from tests.cluster.test_agent_labels import reasons
from tests.kube_objects import Json, gpu, node

STARTING: Json = {"key": "gpu.scheduler-ext.io/starting", "value": "true", "effect": "NoSchedule"}
MANAGED: Json = STARTING | {"key": "startup-taint.cluster-autoscaler.kubernetes.io/gpu.scheduler-ext.io"}
GPU: Json = {"key": WHOLE, "effect": "NoSchedule"}
LOST: Json = {"key": "node.kubernetes.io/x", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taints_module, "EVERY_S", 0.01)
    monkeypatch.setattr(taints_module, "Backoff", lambda: Backoff(0.01, 0.02))


def new_node(living: Living, name: str, *taints: Json, allocatable: Json | None = None) -> None:
    there = node(name, {WHOLE: "1"} if allocatable is None else allocatable, taints=list(taints))
    living.server.store.put(NODES, there)


def taints(living: Living, name: str) -> list[Json]:
    found: list[Json] = living.server.store.get(NODES, name).object()["spec"]["taints"]
    return found


def is_removal(request: Request) -> bool:
    return request.method == "PATCH" and request.headers.get("content-type") == "application/json-patch+json"


def counted(living: Living) -> dict[str, int]:
    found = living.loop(StartupTaints).taints
    return {result: found[result] for result in ("removed", "refused", "failed")}


def test_the_taint_goes_when_report_and_plugin_are_there_and_others_stay(living: Living) -> None:
    before = [MANAGED, GPU, STARTING, LOST]
    new_node(living, "c", *before, allocatable={})
    living.start()
    # Neither of both is enough.
    living.report("c", gpu(0))
    eventually(lambda: living.info("c").report is not None)
    assert taints(living, "c") == before
    new_node(living, "c", *before)
    eventually(lambda: taints(living, "c") == [each for each in before if each in (GPU, LOST)])
    eventually(lambda: ("GPUNodeStarted", "c") in reasons(living))
    assert counted(living) == {"removed": 1, "refused": 0, "failed": 0}


def start_and_change(living: Living, change: Callable[[], None]) -> None:
    """Start with a node c that is ready; the change happens just before the first write about it."""
    new_node(living, "c", STARTING)
    living.report("c", gpu(0))
    changes = [change]

    def before_the_first_write(request: Request) -> Answer | None:
        if is_removal(request) and changes:
            changes.pop()()
        return None

    living.server.hook = before_the_first_write
    living.start()
    eventually(lambda: not changes)


def test_taints_that_changed_meanwhile_are_looked_at_again(living: Living) -> None:
    """The write that was meant for the place of the taint removes no other."""
    start_and_change(living, lambda: new_node(living, "c", GPU, STARTING))
    eventually(lambda: taints(living, "c") == [GPU])
    eventually(lambda: counted(living) == {"removed": 1, "refused": 0, "failed": 0})


def test_another_node_of_the_same_name_keeps_its_taint(living: Living) -> None:
    """It replaces the one that had started, and the watch does not show it yet."""

    def replaced() -> None:
        living.server.store.delete(NODES, "c")
        living.server.store.put(NODES, node("c", {}, uid="uid-next", taints=[STARTING]))

    start_and_change(living, replaced)

    def is_seen() -> bool:
        snapshot = living.live.snapshot
        seen = snapshot.nodes.get("c") if snapshot is not None else None
        return seen is not None and seen.info.uid == "uid-next"

    eventually(is_seen)
    assert taints(living, "c") == [STARTING]


def test_a_node_whose_write_is_refused_for_good_holds_back_no_other(living: Living) -> None:
    """As by an admission webhook for the nodes of one pool."""
    for name in ("c", "d"):
        new_node(living, name, STARTING)
        living.report(name, gpu(0))
    refusal = Refuse(403, "Forbidden", "admission webhook denied the request")

    def is_of_c(request: Request) -> bool:
        return is_removal(request) and request.path.endswith("/c")

    living.server.faults.place(refusal, is_of_c, times=None)
    living.start()
    eventually(lambda: taints(living, "d") == [])
    assert taints(living, "c") == [STARTING]


@pytest.mark.parametrize(
    ("refusal", "times"),
    [
        pytest.param(Refuse(403, "Forbidden", "denied"), 2, id="that is refused for a while"),
        pytest.param(
            Refuse(422, "Invalid", "denied"), 20, id="that a policy refuses as if the taints had changed"
        ),
    ],
)
def test_a_write(
    living: Living,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refusal: Refuse,
    times: int,
) -> None:
    """Is tried again, counted and logged."""
    monkeypatch.setattr(taints_module, "WATCH_S", 0.05)
    new_node(living, "c", STARTING)
    living.report("c", gpu(0))
    living.server.faults.place(refusal, is_removal, times=times)
    living.start()
    eventually(lambda: taints(living, "c") == [])
    eventually(lambda: counted(living)["removed"] == 1)
    assert counted(living)["refused"] > 0
    assert "is not removed, trying again" in caplog.text


def test_a_node_that_does_not_start_gets_an_event(living: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taints_module, "LATE_S", 0.05)
    new_node(living, "c", STARTING)
    living.start()
    eventually(lambda: ("GPUNodeNotStarted", "c") in reasons(living))
    assert taints(living, "c") == [STARTING]
