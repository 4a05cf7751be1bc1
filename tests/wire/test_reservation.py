"""GPUReservations: an intent contains exactly the pod's future holdings, and an unreadable one is broken."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from scheduler_ext.core.cache.intent import MAX_INTENTS, Intent, Reservation
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.request import GpuRequest, InitShare, ShareRequest, UnitRequest
from scheduler_ext.wire.reservation import GpuReservation, read_reservation, reservation_body
from scheduler_ext.wire.watching import Broken, Decoder
from tests.kube_objects import Json
from tests.strategies import share_asks, unit_asks

names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


@st.composite
def held(draw: DrawFn) -> BoundPod:
    """An assumed pod: each share on one GPU, or units that a device plugin picks, or both."""
    units = draw(st.one_of(st.just(()), unit_asks()))
    shares = draw(st.one_of(st.none(), share_asks()) if units else share_asks())
    priority = draw(st.integers(-(2**31), 2**31 - 1))
    asked = shares or ShareRequest(())
    containers = [name for name, _ in asked.running] + [share.container for share in asked.init]
    return BoundPod(
        uid=draw(st.uuids().map(str)),
        namespace=draw(names),
        name=draw(names),
        priority=priority,
        request=GpuRequest(units=units, shares=shares, priority=priority),
        devices={name: (draw(st.sampled_from(("GPU-0", "GPU-1", "GPU-2"))),) for name in containers},
    )


intents = st.builds(Intent, held(), st.integers(1, 2**63).map(str), names)
reservations = st.builds(
    Reservation,
    names,
    st.one_of(st.none(), st.uuids().map(str)),
    st.one_of(st.none(), st.integers(1, 2**63).map(str)),
    st.lists(intents, max_size=4).map(tuple),
)


@given(reservations)
def test_written_objects_are_read(wanted: Reservation) -> None:
    assert read_reservation(json.dumps(reservation_body(wanted)).encode()) == wanted


SHARES = ShareRequest((("proxy", 1024), ("main", 4096)), (InitShare("warm", 8192, (0,)),))
ONE = Intent(
    BoundPod(
        "u1",
        "team",
        "train",
        1000,
        GpuRequest(shares=SHARES, priority=1000),
        {"proxy": ("GPU-0",), "main": ("GPU-1",), "warm": ("GPU-0",)},
    ),
    "4711",
    "gpu-scheduler-7f9",
)


def test_the_object() -> None:
    assert reservation_body(Reservation("n1", "node-uid", "99", (ONE,))) == {
        "apiVersion": "gpu.scheduler-ext.io/v1alpha1",
        "kind": "GPUReservation",
        "metadata": {
            "name": "n1",
            "resourceVersion": "99",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid"}],
        },
        "spec": {
            "intents": [
                {
                    "podUID": "u1",
                    "namespace": "team",
                    "name": "train",
                    "resourceVersion": "4711",
                    "extender": "gpu-scheduler-7f9",
                    "pod": {
                        "priority": 1000,
                        "shares": [
                            {"container": "proxy", "memoryMiB": 1024, "device": "GPU-0"},
                            {"container": "main", "memoryMiB": 4096, "device": "GPU-1"},
                            {
                                "container": "warm",
                                "memoryMiB": 8192,
                                "device": "GPU-0",
                                "init": True,
                                "beside": [0],
                            },
                        ],
                    },
                }
            ]
        },
    }


def test_fields_of_another_release_are_skipped_on_every_level() -> None:
    body = reservation_body(Reservation("n1", "node-uid", "99", (ONE,)))
    (intent,) = body["spec"]["intents"]
    for part in (body, body["metadata"], body["spec"], intent, intent["pod"], *intent["pod"]["shares"]):
        part["ofTheNextRelease"] = {"any": ["thing", 1, None]}
    assert read_reservation(json.dumps(body).encode()).intents == (ONE,)


@pytest.mark.parametrize("spec", [{}, {"spec": {"intents": []}}])
def test_without_intents(spec: Json) -> None:
    metadata = {"name": "n1", "resourceVersion": "9", "ownerReferences": [{"kind": "Team", "uid": "u"}]}
    found = read_reservation(json.dumps({"metadata": metadata} | spec).encode())
    assert found == Reservation("n1", None, "9", ())


def changed(path: tuple[str | int, ...], to: Any) -> Json:
    """The object with one field changed, or (None) left out."""
    body: Any = reservation_body(Reservation("n1", "node-uid", "99", (ONE,)))
    at = body["spec"]["intents"][0]
    for step in path[:-1]:
        at = at[step]
    if to is None:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    found: Json = json.loads(json.dumps(body))
    return found


@pytest.mark.parametrize(
    ("path", "to", "problem"),
    [
        pytest.param(("pod",), None, "missing required field `pod`", id="without the pod's amounts"),
        pytest.param(("pod", "priority"), 2**31, "spec.intents[0].pod.priority: ", id="of too high a one"),
        pytest.param(("pod", "shares"), [], "spec.intents[0].pod: it holds nei", id="that holds nothing"),
        pytest.param(
            ("pod", "units"), [{"resource": "", "count": 1}], "units[0].resource: ", id="units of nothing"
        ),
        pytest.param(
            ("pod", "units"),
            [{"resource": "nvidia.com/mig-half", "count": 1}],
            "is not a MIG resource",
            id="units of a MIG profile that is none",
        ),
        pytest.param(
            ("pod", "units"),
            [{"resource": "nvidia.com/gpu", "count": 1}] * 2,
            "one resource twice",
            id="twice",
        ),
        pytest.param(("pod", "shares", 0, "memoryMiB"), 0, "shares[0].memoryMiB: ", id="a share of nothing"),
        pytest.param(
            ("pod", "shares", 0, "container"), "main", "two shares of one container", id="of one container"
        ),
        pytest.param(
            ("pod", "shares", 2, "beside"), [2], "beside one that is not there", id="beside one too many"
        ),
        pytest.param(("pod", "shares", 0, "beside"), [1], "'proxy' runs", id="running, beside another"),
    ],
)
def test_one_unreadable_intent_breaks_the_whole(path: tuple[str | int, ...], to: Any, problem: str) -> None:
    body = changed(path, to)
    page = Decoder(GpuReservation).page(json.dumps({"items": [body, {"metadata": {"name": "n2"}}]}).encode())
    (broken,) = page.broken
    assert isinstance(broken, Broken)
    assert broken.name == "n1"
    assert problem in broken.problem
    assert len(page.items) == 1
    with pytest.raises(ClusterError) as error:
        read_reservation(json.dumps(body).encode())
    assert problem in str(error.value)


@pytest.mark.parametrize("body", [b"<html>", b"\xff", b"[]"])
def test_values_that_are_no_object(body: bytes) -> None:
    with pytest.raises(ClusterError, match="GPUReservation"):
        read_reservation(body)


def test_there_are_at_most_so_many() -> None:
    full = Reservation("n1", intents=(ONE,) * MAX_INTENTS)
    assert len(read_reservation(json.dumps(reservation_body(full)).encode()).intents) == MAX_INTENTS
    with pytest.raises(ValueError, match="257 intents on node n1; at most 256"):
        reservation_body(replace(full, intents=(*full.intents, ONE)))


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param({"proxy": ("GPU-0",), "main": ("GPU-1",)}, id="on none"),
        pytest.param({"proxy": ("GPU-0",), "main": ("GPU-0", "GPU-1"), "warm": ("GPU-0",)}, id="on two"),
    ],
)
def test_a_share_on_other_than_one_gpu_is_never_written(devices: dict[str, tuple[str, ...]]) -> None:
    odd = replace(ONE, pod=replace(ONE.pod, devices=devices))
    with pytest.raises(ValueError, match="not on one"):
        reservation_body(Reservation("n1", intents=(odd,)))


def test_units_of_a_device_plugin() -> None:
    units = (UnitRequest("nvidia.com/gpu", 2), UnitRequest("nvidia.com/mig-1g.10gb", 1, "1g.10gb"))
    whole = replace(ONE, pod=replace(ONE.pod, request=GpuRequest(units=units, priority=1000), devices={}))
    body = reservation_body(Reservation("n1", intents=(whole,)))
    assert body["spec"]["intents"][0]["pod"] == {
        "priority": 1000,
        "units": [
            {"resource": "nvidia.com/gpu", "count": 2},
            {"resource": "nvidia.com/mig-1g.10gb", "count": 1},
        ],
    }
    assert read_reservation(json.dumps(body).encode()).intents == (whole,)


def test_a_pod_that_holds_nothing_is_never_written() -> None:
    nothing = replace(ONE, pod=replace(ONE.pod, request=GpuRequest()))
    with pytest.raises(ValueError, match="neither shares nor units"):
        reservation_body(Reservation("n1", intents=(nothing,)))
