"""From a pod's resources to effective amounts, or to one clear refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.policy import priority_level
from scheduler_ext.core.request.request import (
    ContainerRequest,
    ContainerRole,
    GpuRequest,
    InitShare,
    InvalidRequest,
    ShareRequest,
    UnitRequest,
    UnparsedRequest,
    parse_holding,
    parse_request,
)
from scheduler_ext.core.request.resource_names import ResourceNames

WHOLE = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
CLASS = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
SHARE = "gpu.scheduler-ext.io/memory-mib"
Limits = Mapping[str, str]


def app(limits: Limits, name: str = "app") -> ContainerRequest:
    return ContainerRequest(name, ContainerRole.APP, {}, limits)


def init(limits: Limits, name: str = "init") -> ContainerRequest:
    return ContainerRequest(name, ContainerRole.INIT, {}, limits)


def sidecar(limits: Limits, name: str = "sidecar") -> ContainerRequest:
    return ContainerRequest(name, ContainerRole.SIDECAR, {}, limits)


def parsed(*containers: ContainerRequest, **pod: Any) -> GpuRequest | InvalidRequest:
    ask: dict[str, Any] = {"namespace": "ns", "name": "p", "uid": "u", "priority": 0, "annotations": {}} | pod
    return parse_request(UnparsedRequest(containers=containers, **ask), ResourceNames())


def request_of(*containers: ContainerRequest, **pod: Any) -> GpuRequest:
    request = parsed(*containers, **pod)
    assert isinstance(request, GpuRequest), request
    return request


def problem_of(*containers: ContainerRequest, **pod: Any) -> str:
    request = parsed(*containers, **pod)
    assert isinstance(request, InvalidRequest), request
    assert request.message.isprintable()
    return request.message


PHASES = [
    pytest.param([app, app], [1, 2], 3, id="app containers run together, so they add up"),
    pytest.param([init, app], [4, 1], 4, id="a larger init container counts alone"),
    pytest.param([sidecar, app], [1, 2], 3, id="a sidecar runs beside the app containers"),
    pytest.param([sidecar, init, app], [1, 3, 1], 4, id="a sidecar runs beside the init containers after it"),
    pytest.param([init, sidecar, app], [3, 1, 1], 3, id="a sidecar is not there yet for those before it"),
    pytest.param([sidecar, init, sidecar, init], [1, 2, 1, 2], 4, id="sidecars accumulate through the start"),
]


@pytest.mark.parametrize(("roles", "counts", "effective"), PHASES)
def test_units_and_shares_are_the_peak_over_the_phases(
    roles: list[Any], counts: list[int], effective: int
) -> None:
    containers = [
        role({WHOLE: str(count), SHARE: str(1024 * count)}) for role, count in zip(roles, counts, strict=True)
    ]
    request = request_of(*containers)
    assert [ask.count for ask in request.units] == [effective]
    assert request.shares is not None
    assert request.shares.total_mib == 1024 * effective
    assert request.shares.largest_mib == 1024 * max(counts)


def test_shares_stay_apart_because_each_has_a_gpu_of_its_own_choice() -> None:
    shares = request_of(
        sidecar({SHARE: "100"}, "log"),
        init({SHARE: "900"}, "load"),
        sidecar({SHARE: "200"}, "proxy"),
        init({SHARE: "50"}, "warm"),
        app({SHARE: "400"}, "main"),
        app({}, "cpu-only"),
    ).shares
    assert shares == ShareRequest(
        running=(("log", 100), ("proxy", 200), ("main", 400)),
        init=(InitShare("load", 900, (0,)), InitShare("warm", 50, (0, 1))),
    )


def test_containers_may_ask_for_different_things() -> None:
    request = request_of(app({WHOLE: "2"}, "train"), app({MIG: "1"}, "eval"), app({SHARE: "2048"}, "view"))
    assert request.units == (UnitRequest(WHOLE, 2), UnitRequest(MIG, 1, "1g.10gb"))
    assert request.shares == ShareRequest((("view", 2048),))
    assert request.by_container == (("train", WHOLE, 2), ("eval", MIG, 1), ("view", SHARE, 2048))


@pytest.mark.parametrize(
    ("resource", "profile"),
    [
        pytest.param("nvidia.com/mig-3g.40gb", "3g.40gb", id="a plain profile"),
        pytest.param("nvidia.com/mig-1g.10gb.me", "1g.10gb+me", id="a dot stands for the plus"),
        pytest.param("nvidia.com/mig-1g.24gb.me.all", "1g.24gb+me.all", id="with all media engines"),
        pytest.param("nvidia.com/mig-1g.24gb-me", "1g.24gb-me", id="the minus stays"),
        pytest.param("nvidia.com/mig-1g.10gb.shared", "1g.10gb", id="a replica of an instance"),
    ],
)
def test_mig_resources_name_their_profile(resource: str, profile: str) -> None:
    assert request_of(app({resource: "1"})).units == (UnitRequest(resource, 1, profile),)


def test_zero_asks_nothing() -> None:
    request = request_of(app({WHOLE: "0", MIG: "0", SHARE: "0"}))
    assert not request.asks_gpu
    assert request == GpuRequest()


@pytest.mark.parametrize(
    ("requests", "limits"),
    [
        pytest.param({}, {WHOLE: "1"}, id="requests default to limits"),
        pytest.param({CLASS: "1"}, {}, id="of a device class, requests alone"),
        pytest.param({WHOLE: "1"}, {WHOLE: "1000m"}, id="equal in another notation"),
    ],
)
def test_requests_and_limits_mean_one_amount(requests: Limits, limits: Limits) -> None:
    (name,) = {*requests, *limits}
    assert request_of(ContainerRequest("c", ContainerRole.APP, requests, limits)).units == (
        UnitRequest(name, 1),
    )


@pytest.mark.parametrize(
    ("requests", "limits", "problem"),
    [
        pytest.param(
            {WHOLE: "1"},
            {WHOLE: "2"},
            "'nvidia.com/gpu': resources.requests has '1' and resources.limits '2', so the API server "
            "refuses the pod; make them equal",
            id="that differ",
        ),
        pytest.param(
            {WHOLE: "1"},
            {},
            "'nvidia.com/gpu': resources.requests has '1' and resources.limits nothing, so the API server "
            "refuses the pod; write '1' in resources.limits, too",
            id="without limits",
        ),
        pytest.param({MIG: "0"}, {}, "write '0' in resources.limits, too", id="of nothing without limits"),
        pytest.param({CLASS: "2"}, {CLASS: "1"}, "lower the first", id="of a device class, above the limits"),
    ],
)
def test_requests_that_the_api_server_refuses(requests: Limits, limits: Limits, problem: str) -> None:
    message = problem_of(ContainerRequest("c", ContainerRole.APP, requests, limits))
    assert message.startswith("container 'c': ")
    assert problem in message


def test_what_a_pod_holds_does_not_depend_on_its_limits() -> None:
    ask = UnparsedRequest("ns", "p", "u", 0, {}, [ContainerRequest("c", ContainerRole.APP, {WHOLE: "1"}, {})])
    assert parse_holding(ask, ResourceNames()).units == (UnitRequest(WHOLE, 1),)


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        pytest.param({WHOLE: "-1"}, ["container 'app'", WHOLE, "'-1' is negative"], id="negative"),
        pytest.param({WHOLE: "500m"}, [WHOLE, "'500m' is fractional", SHARE], id="half a GPU"),
        pytest.param({WHOLE: "8Gi"}, [WHOLE, "'8Gi' is absurd", SHARE], id="memory instead of a count"),
        pytest.param({WHOLE: "A100"}, [WHOLE, "gpu.scheduler-ext.io/model"], id="a model instead of a count"),
        pytest.param({SHARE: "0.5"}, [SHARE, "'0.5' is fractional", "counts MiB"], id="half a MiB"),
        pytest.param({WHOLE: "1e9"}, [WHOLE, "absurd", "at most 1000000"], id="a billion GPUs"),
        pytest.param(
            {SHARE: "8Gi"}, [SHARE, "the number counts MiB: 8192 means 8 GiB"], id="a share in bytes"
        ),
        pytest.param({SHARE: "8192Mi"}, [SHARE, "8192 means 8 GiB"], id="a share with a unit"),
        pytest.param(
            {"nvidia.com/mig-huge": "1"},
            ["nvidia.com/mig-huge", "like nvidia.com/mig-1g.10gb"],
            id="no profile",
        ),
        pytest.param({"nvidia.com/mig-3c.3g.40gb": "1"}, ["mig-3c.3g.40gb"], id="no such compute instance"),
        pytest.param(
            {WHOLE: "1", "nvidia.com/gpu.shared": "1"},
            ["nvidia.com/gpu and nvidia.com/gpu.shared", "ask one"],
            id="whole and shared GPUs at once",
        ),
    ],
)
def test_a_quantity_that_cannot_be_meant_is_the_pods_fault(limits: Limits, named: list[str]) -> None:
    message = problem_of(app(limits))
    assert [part for part in named if part not in message] == []


def test_gpus_of_two_vendors_are_no_contradiction() -> None:
    assert len(request_of(app({WHOLE: "1", "amd.com/gpu": "1"})).units) == 2


def test_a_pod_of_thousands_of_shares_is_refused() -> None:
    assert request_of(*[app({SHARE: "1"})] * 64).asks_gpu
    assert "65 containers ask a share" in problem_of(*[app({SHARE: "1"})] * 65)


def test_containers_that_are_absurd_together_are_refused() -> None:
    assert request_of(*[app({WHOLE: "500000"})] * 2).units == (UnitRequest(WHOLE, 1_000_000, in_one=500_000),)
    assert "1500000 over all containers is absurd" in problem_of(*[app({WHOLE: "500000"})] * 3)


def test_a_message_stays_one_short_line_whatever_the_pod_is_called() -> None:
    message = problem_of(app({WHOLE: "-1"}, name="a\nb" * 1000))
    assert len(message) < 300


def test_equal_requests_of_different_pods_are_equal_values() -> None:
    one = request_of(app({WHOLE: "2"}, "a"), uid="1", name="x")
    other = request_of(app({WHOLE: "2"}, "b"), app({}, "c"), uid="2", name="y")
    assert one == other
    assert hash(one) == hash(other)
    # A device plugin that gives a container one replica gives two containers one each.
    assert one != request_of(app({WHOLE: "1"}, "b"), app({WHOLE: "1"}, "c"))


@pytest.mark.parametrize(
    ("priority", "level"), [(0, 0.5), (1000, 1.0), (-1000, 0.0), (10**9, 1.0), (-(2**31), 0.0)]
)
def test_priority_levels_at_the_marks(priority: int, level: float) -> None:
    assert priority_level(priority, high=1000) == level


INT32 = st.integers(-(2**31), 2**31 - 1)


@given(one=INT32, other=INT32, high=st.integers(1, 10**9))
def test_priority_level_is_bounded_monotone_and_symmetric(one: int, other: int, high: int) -> None:
    low_level, high_level = (priority_level(p, high) for p in sorted((one, other)))
    assert 0.0 <= low_level <= high_level <= 1.0
    assert priority_level(one, high) + priority_level(-one, high) == pytest.approx(1.0)


def test_small_priorities_differ_as_well_as_large_ones() -> None:
    levels = [priority_level(p, high=1_000_000) for p in (-1000, -10, -1, 0, 1, 10, 1000, 1_000_000)]
    assert levels == sorted(set(levels))
