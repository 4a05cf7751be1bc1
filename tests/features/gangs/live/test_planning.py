"""Refused pods on a live cluster: nominations are written, kept, followed and withdrawn."""

from __future__ import annotations

import json
import time

import pytest

from scheduler_ext.cluster import live as live_module
from scheduler_ext.cluster.live import LiveInventory
from scheduler_ext.features.gangs.planning import planner as planner_module
from scheduler_ext.features.gangs.planning.plan import State
from scheduler_ext.wire.planned_annotation import PLANNED_ANNOTATION
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import GPU_NODES, LEASES, PODS
from tests.cluster.following import eventually
from tests.features.gangs.live.planned import (
    WHOLE,
    Planned,
    entries,
    info,
    is_nomination,
    outcomes,
    planning,
    states,
)
from tests.kube_objects import Json, gpu_node, names_body, pod


@pytest.fixture
def ahead(planned: Planned) -> Planned:
    """The nodes a and b of two GPUs each."""
    planned.add_nodes("a", "b", gpus=2)
    return planned


@pytest.fixture
def impatient_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans again after milliseconds."""
    monkeypatch.setattr(planner_module, "_STALE_S", 0.01)
    monkeypatch.setattr(planner_module, "_AGAIN_S", 0.01)


def test_waiting_pods_are_nominated_and_followed(ahead: Planned) -> None:
    live = ahead.extender()
    for name in ("p", "q", "r"):
        ahead.wait(name)
    eventually(lambda: ahead.places().keys() == {"p", "q", "r"})
    eventually(lambda: set(states(live).values()) == {State.NOMINATED})
    places = ahead.places()
    assert sorted(places.values()) == ["a", "a", "b"]
    entry = entries(live)["p"]
    assert entry.node == places["p"]
    assert entry.deadline == pytest.approx(time.time() + 30, abs=5)
    assert planning(live).plan().made_at == pytest.approx(time.time(), abs=5)
    ahead.bind("p", places["p"])
    ahead.bind("q", "b" if places["q"] == "a" else "a")
    ahead.server.store.delete(PODS, "r", "default")
    eventually(lambda: outcomes(live) == {"bound": 1, "elsewhere": 1, "deleted": 1})
    assert entries(live) == {}
    assert ahead.writes() == 3


def test_pods_that_are_left_alone_are_named(ahead: Planned) -> None:
    live = ahead.extender()
    port = {"name": "main", "ports": [{"hostPort": 80}], "resources": {"limits": {WHOLE: "1"}}}
    ahead.wait("claims", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    ahead.wait("gated", schedulingGates=[{"name": "example.com/quota"}])
    ahead.add("member", size=1)
    ahead.wait("theirs", status={"nominatedNodeName": "b"})
    ahead.wait("other", schedulerName="default-scheduler")
    ahead.wait("large", containers=[port | {"ports": [], "resources": {"limits": {WHOLE: "9"}}}])
    ahead.wait("fits")
    expected = {
        "claims": State.NOT_MODELLED,
        "gated": State.GATED,
        "member": State.GATED,  # where gangs are not planned
        "theirs": State.NOMINATED_ELSEWHERE,
        "large": State.WAITING,
        "fits": State.NOMINATED,
    }
    eventually(lambda: states(live) == expected)
    found = entries(live)
    assert found["claims"].reason == "it asks resource claims (DRA)"
    assert found["theirs"].node == "b"
    assert found["large"].refusals == {"Insufficient nvidia.com/gpu per device": 2}
    assert ahead.writes() == 1


def test_a_pod_that_came_since_the_last_snapshot_keeps_its_gpus(
    ahead: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot shows a pod up to a tenth of a second after the watch, and plans are made meanwhile."""
    live = ahead.extender()
    monkeypatch.setattr(live_module, "_PUBLISH_EVERY_S", 3600.0)
    full = [{"name": "main", "resources": {"limits": {WHOLE: "2"}}}]
    for name in "ab":
        ahead.server.store.put(PODS, pod(f"on-{name}", on=name, containers=full))
    ahead.wait("p")
    eventually(lambda: "p" in entries(live) and bool(entries(live)["p"].refusals))
    assert entries(live)["p"].refusals == {"Insufficient nvidia.com/gpu per device": 2}
    assert not ahead.places()


def test_no_pod_has_to_leave_for_one_that_fits_and_is_to_be_nominated(ahead: Planned) -> None:
    live = ahead.extender()
    is_to_be_nominated = planning(live).is_to_be_nominated
    large = [{"name": "main", "resources": {"limits": {WHOLE: "9"}}}]
    untried: Json = {"status": {"conditions": []}}
    ahead.wait("fits", **untried)
    ahead.wait("large", containers=large, **untried)
    eventually(lambda: is_to_be_nominated("uid-fits"))
    assert not is_to_be_nominated("uid-large")
    assert not is_to_be_nominated("uid-unknown")
    ahead.wait("fits")
    eventually(lambda: ahead.nominated("fits") is not None)
    # Should its node refuse it then, it may evict others.
    eventually(lambda: not is_to_be_nominated("uid-fits"))


def test_a_nomination_of_another_component_is_not_touched(ahead: Planned) -> None:
    live = ahead.extender()
    ahead.server.faults.place(Refuse(409, "Conflict"), is_nomination, times=None)
    ahead.wait("p")
    eventually(lambda: outcomes(live)["conflict"] >= 1)
    eventually(lambda: states(live) == {"p": State.BACKING_OFF})
    assert ahead.get("p")["status"].get("nominatedNodeName") is None


@pytest.mark.usefixtures("impatient_planner")
def test_writes_that_fail_are_tried_again(ahead: Planned, caplog: pytest.LogCaptureFixture) -> None:
    live = ahead.extender()
    ahead.server.faults.place(Refuse(403, "Forbidden"), is_nomination, times=None)
    ahead.wait("p")
    eventually(lambda: outcomes(live)["failed"] >= 2)
    ahead.server.faults.lift()
    eventually(lambda: ahead.nominated("p") is not None)
    messages = [record.getMessage() for record in caplog.records if "nominations" in record.getMessage()]
    assert len(messages) == 1
    assert "apply manifests/base/nominations.yaml" in messages[0]


@pytest.mark.usefixtures("impatient_planner")
def test_a_place_that_filter_refuses_is_given_up(ahead: Planned) -> None:
    live = ahead.extender()
    ahead.wait("p")
    eventually(lambda: ahead.nominated("p") is not None)
    node = str(ahead.nominated("p"))
    ahead.server.store.put(GPU_NODES, gpu_node(node, []))
    eventually(lambda: not info(live, node).devices)
    answer = live.extender.filter(names_body(ahead.get("p"), [node]), time.monotonic() + 60)
    assert not answer.nodes_out
    eventually(lambda: outcomes(live)["misfit"] == 1)
    eventually(lambda: ahead.nominated("p") not in (None, node))


@pytest.mark.usefixtures("impatient_planner")
def test_what_a_dead_planner_wrote_is_withdrawn_after_its_time(ahead: Planned) -> None:
    stale = {PLANNED_ANNOTATION: json.dumps({"node": "a", "until": "2020-01-01T00:00:00Z"})}
    gates = [{"name": "x"}]
    ahead.wait("p", annotations=stale, status={"nominatedNodeName": "a"}, schedulingGates=gates)
    live = ahead.extender()
    eventually(lambda: ahead.server.log.count(is_nomination) > 0)
    assert info(live, "a").planned == ()
    (write, *_) = ahead.server.log.all(is_nomination)
    assert write.json()["status"] == {}


def test_only_the_active_extender_writes(ahead: Planned) -> None:
    def hold(holder: str) -> None:
        lease = {"name": "lease", "namespace": "gpu-scheduler"}
        ahead.server.store.put(LEASES, {"metadata": lease, "spec": {"holderIdentity": f"{holder}_1"}})

    hold("one")
    one, two = (ahead.extender(lease=("gpu-scheduler", "lease", name)) for name in ("one", "two"))
    ahead.wait("p")
    eventually(lambda: ahead.nominated("p") is not None)

    def kept(live: LiveInventory) -> list[str]:
        return [pod.name for name in "ab" for pod in info(live, name).planned]

    # Both keep the place.
    eventually(lambda: kept(one) == kept(two) == ["p"])
    assert ahead.writes() == 1
    hold("two")
    eventually(lambda: two.active() and not one.active())
    ahead.wait("q")
    eventually(lambda: ahead.nominated("q") is not None)
    eventually(lambda: states(two) == {"p": State.NOMINATED, "q": State.NOMINATED})
    # It gives up its plan in its next step.
    eventually(lambda: planning(one).plan().counts() == {State.WAITING: 2})
