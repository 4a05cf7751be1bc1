"""Planning ahead on a live cluster: nominations are written, kept, followed and withdrawn."""

from __future__ import annotations

import json
import time

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.planning import outcomes as outcomes_module
from scheduler_ext.core.planning import planner as planner_module
from scheduler_ext.core.planning.plan import State
from scheduler_ext.wire.planned_annotation import PLANNED_ANNOTATION
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import LEASES, PODS
from tests.cluster.api.api_requests import Request
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.living import Living
from tests.cluster.planning.planned import Ahead, entries, outcomes, planning, states
from tests.kube_objects import names_body


def nominations(request: Request) -> bool:
    return request.method == "PATCH" and request.path.endswith("/status") and "/pods/" in request.path


@pytest.fixture
def impatient_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans again after milliseconds."""
    monkeypatch.setattr(outcomes_module, "_FIRST_S", 0.05)
    monkeypatch.setattr(planner_module, "_STALE_S", 0.01)
    monkeypatch.setattr(planner_module, "_AGAIN_S", 0.01)


def test_waiting_pods_are_nominated_and_followed(ahead: Ahead) -> None:
    living = ahead.start()
    for name in ("p", "q", "r"):
        ahead.wait(name)
    eventually(lambda: all(ahead.nominated(name) for name in ("p", "q", "r")))
    eventually(lambda: set(states(living).values()) == {State.NOMINATED})
    assert sorted(str(ahead.nominated(name)) for name in ("p", "q", "r")) == ["a", "a", "b"]
    written = json.loads(ahead.get("p")["metadata"]["annotations"][PLANNED_ANNOTATION])
    assert written["until"].startswith("20")
    entry = entries(living)["p"]
    assert entry.node == ahead.nominated("p")
    assert entry.deadline == pytest.approx(time.time() + 30, abs=5)
    assert planning(living).plan().made_at == pytest.approx(time.time(), abs=5)
    ahead.bind("p", str(ahead.nominated("p")))
    ahead.bind("q", "b" if ahead.nominated("q") == "a" else "a")
    ahead.server.store.delete(PODS, "r", "default")
    eventually(lambda: outcomes(living) == {"bound": 1, "elsewhere": 1, "deleted": 1})
    assert entries(living) == {}
    assert ahead.writes() == 3


def test_pods_that_are_left_alone_are_named(ahead: Ahead) -> None:
    living = ahead.start()
    port = {"name": "main", "ports": [{"hostPort": 80}], "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    ahead.wait("ports", containers=[port])
    ahead.wait("gated", schedulingGates=[{"name": "example.com/quota"}])
    ahead.wait("theirs", status={"nominatedNodeName": "b"})
    ahead.wait("other", schedulerName="default-scheduler")
    ahead.wait("large", containers=[port | {"ports": [], "resources": {"limits": {"nvidia.com/gpu": "9"}}}])
    ahead.wait("fits")
    eventually(lambda: ahead.nominated("fits") is not None)
    expected = {
        "ports": State.NOT_MODELLED,
        "gated": State.GATED,
        "theirs": State.NOMINATED_ELSEWHERE,
        "large": State.WAITING,
        "fits": State.NOMINATED,
    }
    eventually(lambda: states(living) == expected)
    found = entries(living)
    assert found["ports"].reason == "it asks host ports"
    assert found["theirs"].node == "b"
    assert found["large"].refusals == {"Insufficient nvidia.com/gpu per device": 2}
    assert ahead.writes() == 1


def test_a_nomination_of_another_component_is_not_touched(ahead: Ahead) -> None:
    living = ahead.start()
    ahead.server.faults.place(Refuse(409, "Conflict"), nominations, times=None)
    ahead.wait("p")
    eventually(lambda: outcomes(living)["conflict"] >= 1)
    eventually(lambda: states(living) == {"p": State.BACKING_OFF})
    assert ahead.get("p")["status"].get("nominatedNodeName") is None


@pytest.mark.usefixtures("impatient_planner")
def test_writes_that_fail_are_tried_again(ahead: Ahead, caplog: pytest.LogCaptureFixture) -> None:
    living = ahead.start()
    ahead.server.faults.place(Refuse(403, "Forbidden"), nominations, times=None)
    ahead.wait("p")
    eventually(lambda: outcomes(living)["failed"] >= 2)
    ahead.server.faults.lift()
    eventually(lambda: ahead.nominated("p") is not None)
    messages = [record.getMessage() for record in caplog.records if "nominations" in record.getMessage()]
    assert len(messages) == 1
    assert "install manifests/components/planner" in messages[0]


@pytest.mark.usefixtures("impatient_planner")
def test_a_place_that_filter_refuses_is_given_up(ahead: Ahead) -> None:
    living = ahead.start()
    asking = ahead.wait("p")
    eventually(lambda: ahead.nominated("p") is not None)
    node = str(ahead.nominated("p"))
    living.report(node)
    eventually(lambda: not living.info(node).devices)
    asked = ahead.get("p")
    answer = living.extender.filter(names_body(asked, [node]), time.monotonic() + 60)
    assert not answer.nodes_out
    eventually(lambda: outcomes(living)["misfit"] == 1)
    eventually(lambda: ahead.nominated("p") not in (None, node))
    assert asking["metadata"]["name"] == "p"


@pytest.mark.usefixtures("impatient_planner")
def test_what_a_dead_planner_wrote_is_withdrawn_after_its_time(ahead: Ahead) -> None:
    stale = {"node": "a", "until": "2020-01-01T00:00:00Z"}
    made = ahead.wait("p", status={"nominatedNodeName": "a"}, schedulingGates=[{"name": "x"}])
    made["metadata"]["annotations"] = {PLANNED_ANNOTATION: json.dumps(stale)}
    ahead.server.store.put(PODS, made)
    living = ahead.start()
    eventually(lambda: ahead.server.log.count(nominations) > 0)
    assert living.info("a").planned == ()
    (write, *_) = ahead.server.log.all(nominations)
    assert write.json()["status"] == {}


def test_only_the_active_extender_writes(ahead: Ahead, server: ApiServer, transport: Transport) -> None:
    def hold(holder: str) -> None:
        lease = {"name": "lease", "namespace": "gpu-scheduler"}
        server.store.put(LEASES, {"metadata": lease, "spec": {"holderIdentity": f"{holder}_1"}})

    hold("one")
    one, two = (ahead.start(("gpu-scheduler", "lease", name)) for name in ("one", "two"))
    ahead.wait("p")
    eventually(lambda: ahead.nominated("p") is not None)

    def kept(living: Living) -> list[str]:
        return [pod.name for name in "ab" for pod in living.info(name).planned]

    # Both keep the place.
    eventually(lambda: kept(one) == kept(two) == ["p"])
    assert ahead.writes() == 1
    hold("two")
    eventually(lambda: two.live.active() and not one.live.active())
    ahead.wait("q")
    eventually(lambda: ahead.nominated("q") is not None)
    eventually(lambda: states(two) == {"p": State.NOMINATED, "q": State.NOMINATED})
    # It gives up its plan in its next step.
    eventually(lambda: planning(one).plan().counts() == {State.WAITING: 2})
