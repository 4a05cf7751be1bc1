"""Gangs from the pods of a cluster: which pods count, which need no place, and which are no gang."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from scheduler_ext.core.request.gang_request import GATE, GangRequest, InvalidGang
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.features.gangs.live.gang_assembly import Assembled, WaitingMembers, assemble
from scheduler_ext.features.gangs.planning.gang import MemberState
from scheduler_ext.features.gangs.wire.gang_pod import GangPod, gang_pod
from scheduler_ext.wire import kube
from scheduler_ext.wire.gangs import read_gang_request
from tests.kube_objects import pod

OURS = "gpu.scheduler-ext.io/"
RESOURCES = ResourceNames()


@dataclass(frozen=True)
class Ask:
    kind: str = "gpu"
    priority: int = 0
    gpus: float = 1.0


def member(
    name: str,
    *,
    size: int = 2,
    gang: str = "train",
    gpus: int = 1,
    gates: tuple[str, ...] = (GATE,),
    notes: Mapping[str, str] | None = None,
    **more: Any,
) -> GangPod:
    said = {f"{OURS}gang": gang, f"{OURS}gang-size": str(size)} if gang else {}
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    if gates and more.get("on") is None:
        more["schedulingGates"] = [{"name": gate} for gate in gates]
    document = pod(name, limits, annotations=said | dict(notes or {}), **more)
    return gang_pod(msgspec.json.decode(json.dumps(document), type=kube.Pod), RESOURCES)


def gang_request_of(each: GangPod) -> GangRequest | InvalidGang | None:
    if each.name.startswith("unread"):
        raise LookupError
    return read_gang_request(each.named)


def assembled(
    *pods: GangPod,
    problems: Mapping[str, str] | None = None,
    assumed: Mapping[str, str] | None = None,
    unknown: tuple[str, ...] = (),
) -> Assembled[Ask]:
    problems = problems or {}
    asks = {
        each.uid: Ask()
        for each in pods
        if each.asks_gpu and each.uid not in unknown and each.uid not in problems
    }
    return assemble(pods, gang_request_of, WaitingMembers(asks, problems, assumed or {}), lambda uid: None)


def test_members_are_one_gang() -> None:
    found = assembled(member("a"), member("b", on="n1"), member("c", gang="other"))
    assert [(str(gang.key), len(gang.members), gang.missing) for gang in found.gangs] == [
        ("default/other", 1, 1),
        ("default/train", 2, 0),
    ]
    assert {each.state for each in found.gangs[1].members} == {MemberState.GATED, MemberState.BOUND}


@pytest.mark.parametrize(
    ("second", "unknown", "missing"),
    [
        pytest.param(member("b", gates=(GATE, "example.com/mine")), (), 1, id="behind a gate of others"),
        pytest.param(member("b"), ("uid-b",), 1, id="not known to wait yet"),
        pytest.param(member("b", on="n1", phase="Failed"), (), 1, id="failed"),
        pytest.param(member("b", on="n1", phase="Succeeded"), (), 0, id="ended well"),
    ],
)
def test_a_pod_that_counts_for_its_gang(second: GangPod, unknown: tuple[str, ...], missing: int) -> None:
    (gang,) = assembled(member("a"), second, unknown=unknown).gangs
    assert gang.missing == missing


def test_a_member_whose_binding_is_in_flight_counts_as_bound() -> None:
    (gang,) = assembled(member("a", gates=()), member("b"), assumed={"uid-a": "n7"}).gangs
    assert {each.uid: each.node for each in gang.bound} == {"uid-a": "n7"}


def test_pods_without_gpus_count_and_need_no_place() -> None:
    found = assembled(member("a", size=3), member("b", size=3), member("c", size=3, gpus=0))
    (gang,) = found.gangs
    assert (gang.request.size, gang.missing) == (2, 0)
    assert [each.name for each in found.companions[gang.key]] == ["c"]


def test_a_pod_of_no_gang_is_alone_with_and_without_a_gate() -> None:
    found = assembled(member("a", gang=""), member("b", size=1), member("c", size=1, gates=()))
    assert [each.name for each in found.alone] == ["a", "b", "c"]
    assert not found.is_of_gang("uid-a")


def test_a_gang_that_cannot_be_read_is_named() -> None:
    found = assembled(member("a", notes={f"{OURS}gang-deadline": "soon"}))
    ((broken, message),) = found.invalid
    assert broken.name == "a"
    assert "gang-deadline" in message
    assert found.is_of_gang("uid-a")


@pytest.mark.parametrize(
    ("size", "problems", "expected"),
    [
        pytest.param(2, {"uid-b": "it asks host ports"}, "pod b: it asks host ports", id="not modelled"),
        pytest.param(3, {}, "size 2 and 3", id="it contradicts the other"),
    ],
)
def test_what_is_wrong_with_a_member_is_the_gangs_problem(
    size: int, problems: dict[str, str], expected: str
) -> None:
    (gang,) = assembled(member("a", size=2), member("b", size=size), problems=problems).gangs
    assert expected in (gang.problem or "")


@pytest.mark.parametrize(
    ("pods", "alone"),
    [
        pytest.param([member("a", gpus=0), member("b", gpus=0)], ["a", "b"], id="all pods exist"),
        pytest.param([member("a", gpus=0)], [], id="another one is to come, and may ask GPUs"),
        pytest.param([member("a", gpus=0), member("b")], [], id="one asks GPUs"),
    ],
)
def test_a_gang_without_gpus_needs_no_places(pods: list[GangPod], alone: list[str]) -> None:
    assert [each.name for each in assembled(*pods).alone] == alone


def test_a_group_that_is_still_to_be_read_waits() -> None:
    found = assembled(member("unread-a"))
    assert [each.name for each in found.unread] == ["unread-a"]
    assert found.gangs == []
    assert found.is_of_gang("uid-unread-a")


def of_run(owner: str, names: str, **fields: Any) -> list[GangPod]:
    """Members that one controller made; by default they wait behind the gate."""
    pods = [member(name, **fields) for name in names]
    for each in pods:
        assert each.named.metadata is not None
        each.named.metadata.owner_references = [kube.OwnerReference("Job", owner, f"uid-{owner}", True)]
    return pods


def ended(owner: str, names: str) -> list[GangPod]:
    return of_run(owner, names, on="n1", phase="Succeeded")


@pytest.mark.parametrize(
    ("pods", "joining", "missing"),
    [
        pytest.param(
            [*ended("run-1", "ab"), *of_run("run-2", "c")],
            {"uid-c"},
            1,
            id="the pods of a CronJob's last run do not count for the next one, which waits for all",
        ),
        pytest.param(
            [*ended("run-1", "a"), *of_run("run-2", "cd")],
            {"uid-c", "uid-d"},
            0,
            id="of a run that failed in part, too, once all pods of the next one exist",
        ),
        pytest.param(
            [*(member(name, on="n1", phase="Succeeded") for name in "ab"), member("c"), member("d")],
            {"uid-c", "uid-d"},
            0,
            id="pods without an owner are of a former run as well",
        ),
        pytest.param(
            [*ended("driver", "a"), *of_run("workers", "c")],
            {"uid-c"},
            0,
            id="a Job whose pods have all ended counts for the others of its gang",
        ),
        pytest.param(
            [*ended("job", "ab"), *of_run("job", "c")],
            {"uid-c"},
            0,
            id="a further pod of a Job starts though those before it have ended together",
        ),
    ],
)
def test_pods_of_former_runs_take_no_part(pods: list[GangPod], joining: set[str], missing: int) -> None:
    (gang,) = assembled(*pods).gangs
    assert ({each.uid for each in gang.joining}, gang.missing) == (joining, missing)


RUNNING = of_run("job", "ab", on="n1")
IN_ONE_ZONE = {f"{OURS}gang-required-topology": "zone"}


@pytest.mark.parametrize(
    ("pods", "alone"),
    [
        pytest.param(
            [*RUNNING, *of_run("job", "c"), *of_run("job", "d", gates=())],
            ["c", "d"],
            id="no GPU waits for the further pods of an elastic job",
        ),
        pytest.param([*RUNNING[:1], *of_run("job", "c")], [], id="one of the first ones has come back"),
        pytest.param([*RUNNING, *of_run("next", "cd")], [], id="another run has begun beside it"),
        pytest.param([*RUNNING, member("c")], [], id="it is not known who made the pod"),
        pytest.param(
            [*of_run("job", "ab", on="n1", notes=IN_ONE_ZONE), *of_run("job", "c", notes=IN_ONE_ZONE)],
            [],
            id="all of them have to be in one zone",
        ),
        pytest.param(
            [*(replace(each, deadline=9e9) for each in RUNNING), *of_run("job", "c")],
            [],
            id="the gang has not started as a whole yet",
        ),
    ],
)
def test_pods_that_join_a_gang_that_runs_whole_are_alone(pods: list[GangPod], alone: list[str]) -> None:
    found = assembled(*pods)
    assert sorted(each.name for each in found.alone) == alone
    there = {each.uid for gang in found.gangs for each in gang.members}
    assert there == {each.uid for each in pods if each.name not in alone}
